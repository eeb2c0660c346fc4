//! Device memory: allocated here, or adopted.
#![allow(unsafe_code)] // Calls of the driver.

use std::any::Any;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::sys::{self, CUdeviceptr, CUresult};
use cudarc::driver::{CudaSlice, DevicePtrMut as _};

use crate::error::{At, Error};
use crate::memory::{Adopt, Block, Buffer, Handle, bytes_of_elements};

use super::Cuda;
use super::call::{check, make};
use super::context::{Context, Loss};
use super::mode::Mode;
use super::stream::RawStream;

/// One allocation of a device.
pub struct Memory {
    address: CUdeviceptr,
    context: Arc<Context>,
    /// The program's slice, where it is one.
    adopted: Option<Box<dyn Any + Send + Sync>>,
}

impl Memory {
    pub(super) fn allocate(context: &Arc<Context>, bytes: usize) -> Result<Self, Error> {
        context.bind()?;
        let address = context.apart(|| {
            let made = make(
                "cuMemAlloc_v2",
                0,
                // SAFETY: it writes an address there.
                |address| unsafe { sys::cuMemAlloc_v2(address, bytes) },
                |address| drop(free(address)),
            );
            made.map_err(|refused| {
                if is_want_of_memory(&refused) {
                    return Error::out_of_memory(bytes);
                }
                refused
            })
        })?;
        Ok(Self {
            address,
            context: Arc::clone(context),
            adopted: None,
        })
    }

    #[inline]
    pub(super) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// # Errors
    /// The driver's refusal, which is counted as a loss.
    pub(super) fn free(self) -> Result<(), Error> {
        let Self {
            address,
            context,
            adopted,
        } = self;
        context.destroy(Loss::Allocation, || match adopted {
            None => free(address),
            // `cudarc` frees it on the stream that it came from, and leaves its error in the context.
            Some(slice) => context.overheard("free", || drop(slice)),
        })
    }
}

fn free(address: CUdeviceptr) -> Result<(), Error> {
    // SAFETY: `cuMemAlloc_v2` gave it, and it is freed once.
    check("cuMemFree_v2", unsafe { sys::cuMemFree_v2(address) })
}

/// Whether the driver says that there is no memory.
fn is_want_of_memory(error: &Error) -> bool {
    let Error::Driver { source, .. } = error else {
        return false;
    };
    source
        .downcast_ref::<super::Refusal>()
        .is_some_and(|refusal| refusal.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

impl<T: Pod + Send + Sync, M: Mode> Adopt<T, Cuda<M>> for CudaSlice<T> {
    fn adopt(self, device: &Cuda<M>, at: At) -> Result<Buffer<T, Cuda<M>>, Error> {
        let (len, slice) = (self.len(), self);
        let bytes = bytes_of_elements::<T>("adopt", len, at)?;
        let memory = adopt(device, slice, at).map_err(|error| error.placed("adopt", at))?;
        let pool = device.device_captures().pool();
        let block = Block::adopt(memory, bytes, pool);
        Ok(Buffer::new(Handle::new(block, bytes, None, true), len))
    }
}

fn adopt<T: Send + Sync + 'static, M: Mode>(
    device: &Cuda<M>,
    mut slice: CudaSlice<T>,
    at: At,
) -> Result<Memory, Error> {
    let context = device.shared_context();
    let stream = Arc::clone(slice.stream());
    if slice.context().cu_ctx() != context.cuda().cu_ctx() {
        return Err(bad_memory(
            "this slice is of another context than the device; adopt it on the device of its context",
            at,
        ));
    }
    let raw = RawStream::adopt(context, Arc::clone(&stream));
    idle(&raw, at)?;
    let address = context.overheard("adopt", || slice.device_ptr_mut(&stream).0)?;
    raw.synchronize()?;
    Ok(Memory {
        address,
        context: Arc::clone(context),
        adopted: Some(Box::new(slice)),
    })
}

/// Refuses a stream that is in a capture, which asking it more would break.
pub(super) fn idle(stream: &RawStream, at: At) -> Result<(), Error> {
    if stream.is_capturing()? {
        return Err(bad_memory(
            "the stream of this slice is in a capture; adopt the slice before, or behind it",
            at,
        ));
    }
    Ok(())
}

pub(super) fn bad_memory(why: &str, at: At) -> Error {
    Error::BadMemory {
        call: "adopt",
        why: why.into(),
        at: Some(at),
    }
}
