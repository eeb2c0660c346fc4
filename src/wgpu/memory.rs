//! Memory of the device: ours, and buffers of the program's that are adopted.

use std::sync::{Arc, Weak};

use ::wgpu::{BufferUsages, BufferUses};
use bytemuck::Pod;

use crate::error::{At, Error};
use crate::memory::{Adopt, Block, Buffer, Handle, Span, bytes_of_elements};

use super::device::Wgpu;
use super::recorded::{Region, Source};
use super::scope::{Core, lock};

/// One allocation: a buffer of wgpu, which goes when nothing uses it any more.
pub struct Memory {
    pub(super) buffer: ::wgpu::Buffer,
}

impl Memory {
    /// What the buffers of the pool are for.
    const USES: BufferUsages = BufferUsages::STORAGE
        .union(BufferUsages::INDIRECT)
        .union(BufferUsages::COPY_SRC)
        .union(BufferUsages::COPY_DST);

    pub(super) fn allocate(core: &Core, bytes: usize) -> Result<Self, Error> {
        let size = bytes as u64;
        if size > core.limits.max_buffer_size {
            return Err(Error::out_of_memory(bytes));
        }
        let made = core.scoped("alloc", || {
            core.device.create_buffer(&::wgpu::BufferDescriptor {
                label: None,
                size,
                usage: Self::USES,
                mapped_at_creation: false,
            })
        });
        match made {
            Ok(buffer) => Ok(Self { buffer }),
            Err(Error::OutOfMemory { .. }) => Err(Error::out_of_memory(bytes)),
            Err(other) => Err(other),
        }
    }
}

/// The buffers that are adopted on one device, for whoever adopts one again.
pub(super) type Adopted = Vec<Weak<Block<Wgpu>>>;

impl<T: Pod> Adopt<T, Wgpu> for ::wgpu::Buffer {
    fn adopt(self, device: &Wgpu, at: At) -> Result<Buffer<T, Wgpu>, Error> {
        let buffer = self;
        let refuse = |why: String| Error::BadMemory {
            call: "adopt",
            why: why.into(),
            at: Some(at),
        };
        let size = buffer.size();
        let bytes = usize::try_from(size)
            .map_err(|_| refuse(format!("{size} bytes exceed the address space")))?;
        bytes_of_elements::<T>("adopt", bytes, at)?;
        let len = bytes.checked_div(size_of::<T>()).unwrap_or(0);
        if len.checked_mul(size_of::<T>()) != Some(bytes) || !bytes.is_multiple_of(4) {
            return Err(refuse(format!(
                "the buffer has {bytes} bytes, which must be a multiple of four and of the {} of an \
                 element; make it as long",
                size_of::<T>()
            )));
        }
        check_device(device.core(), &buffer, at)?;
        let block = adopted(device, buffer, bytes);
        Ok(Buffer::new(Handle::new(block, bytes, None, true), len))
    }
}

/// Refuses a buffer of another device of its instance.
fn check_device(core: &Core, buffer: &::wgpu::Buffer, at: At) -> Result<(), Error> {
    let transition = ::wgpu::wgt::BufferTransition {
        buffer,
        state: BufferUses::empty(),
    };
    core.scoped("adopt", || {
        let mut encoder = core.device.create_command_encoder(&Default::default());
        encoder.transition_resources([transition].into_iter(), std::iter::empty());
        encoder.finish()
    })
    .map(drop)
    .map_err(|refused| refused.placed("adopt", at))
}

/// The block of an adopted buffer: there is one, as long as anybody has it.
fn adopted(device: &Wgpu, buffer: ::wgpu::Buffer, bytes: usize) -> Arc<Block<Wgpu>> {
    let mut adopted = lock(device.adopted());
    adopted.retain(|known| known.strong_count() > 0);
    let mut known = adopted.iter().filter_map(Weak::upgrade);
    if let Some(block) = known.find(|block| block.page().memory.buffer == buffer) {
        return block;
    }
    drop(known);
    let pool = device.device_captures().pool();
    let block = Block::adopt(Memory { buffer }, bytes, pool);
    adopted.push(Arc::downgrade(&block));
    block
}

/// Bytes of a buffer, as commands get them.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) region: Region,
    /// Nobody's bytes follow, up to the next multiple of four.
    pub(super) may_round_up: bool,
}

impl Place {
    pub(super) fn of(span: Span<'_, Wgpu>) -> Self {
        Self {
            region: Region {
                of: Source::Buffer(span.memory().buffer.clone()),
                offset: span.start() as u64,
                bytes: span.bytes() as u64,
            },
            may_round_up: span.range().end == span.handle().bytes(),
        }
    }

    /// As [`Region::needs`].
    pub(super) fn needs(&self, call: &'static str, usage: BufferUsages) -> Result<(), Error> {
        self.region.needs(call, usage)
    }

    /// As many bytes as the device copies to write it, if it can without a shader.
    pub(super) fn copied(&self) -> Option<u64> {
        let Region { offset, bytes, .. } = self.region;
        let whole = bytes.is_multiple_of(4) || self.may_round_up;
        (offset.is_multiple_of(4) && whole).then(|| bytes.next_multiple_of(4))
    }
}

impl Region {
    /// Refuses a buffer that was made without this usage.
    pub(super) fn needs(&self, call: &'static str, usage: BufferUsages) -> Result<(), Error> {
        let Source::Buffer(buffer) = &self.of else {
            return Ok(());
        };
        if buffer.usage().contains(usage) {
            return Ok(());
        }
        Err(Error::BadMemory {
            call,
            why: format!(
                "the adopted buffer was made with {:?}, and this needs {usage:?}; make it with that",
                buffer.usage()
            )
            .into(),
            at: None,
        })
    }
}
