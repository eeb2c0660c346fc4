//! Bytes moved on the device: by its own copies where those can, by a shader elsewhere.

use ::wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType,
    BufferBindingType, BufferUsages, ComputePipeline, ShaderStages,
};

use crate::error::Error;

use super::memory::Place;
use super::recorded::{Bind, Binds, Draft, Recorded, Region, Workgroups};
use super::scope::Core;

/// The shader for what a copy of the device cannot do: bytes at any offset, and patterns. It writes
/// each word once, so neighbours in a word are safe from each other within one launch.
pub(super) struct Mover {
    pipeline: ComputePipeline,
    layout: BindGroupLayout,
}

const SHADER: &str = "
struct Move { from_byte: u32, to_byte: u32, bytes: u32, period: u32, phase: u32 }
@group(0) @binding(0) var<storage, read> source: array<u32>;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<uniform> move_: Move;

fn byte_at(place: u32) -> u32 {
    let at = move_.from_byte + (move_.phase + place) % move_.period;
    return (source[at / 4u] >> (8u * (at % 4u))) & 0xffu;
}

@compute @workgroup_size(64)
fn move_bytes(
    @builtin(global_invocation_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let end = move_.to_byte + move_.bytes;
    for (var word = move_.to_byte / 4u + id.x; word * 4u < end; word += groups.x * 64u) {
        var value = 0u;
        var mask = 0u;
        for (var i = 0u; i < 4u; i++) {
            let at = word * 4u + i;
            if at >= move_.to_byte && at < end {
                value |= byte_at(at - move_.to_byte) << (8u * i);
                mask |= 0xffu << (8u * i);
            }
        }
        words[word] = (words[word] & ~mask) | value;
    }
}";

/// Bytes of one launch of the shader, so that its sums fit 32 bits and its bindings the limits.
const MOST: u64 = 32 << 20;
const THREADS: u64 = 64;

impl Mover {
    /// The device's own, made when it is first needed.
    fn of(core: &Core) -> Result<&Self, Error> {
        if let Some(made) = core.mover.get() {
            return Ok(made);
        }
        let made = core.scoped("make the shader that moves bytes", || {
            Self::new(&core.device)
        })?;
        Ok(core.mover.get_or_init(|| made))
    }

    fn new(device: &::wgpu::Device) -> Self {
        let entry = |binding, ty| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty,
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let layout = device.create_bind_group_layout(&BindGroupLayoutDescriptor {
            label: Some("move_bytes"),
            entries: &[
                entry(0, BufferBindingType::Storage { read_only: true }),
                entry(1, BufferBindingType::Storage { read_only: false }),
                entry(2, BufferBindingType::Uniform),
            ],
        });
        let module = device.create_shader_module(::wgpu::ShaderModuleDescriptor {
            label: Some("move_bytes"),
            source: ::wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline_layout = device.create_pipeline_layout(&::wgpu::PipelineLayoutDescriptor {
            label: Some("move_bytes"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_compute_pipeline(&::wgpu::ComputePipelineDescriptor {
            label: Some("move_bytes"),
            layout: Some(&pipeline_layout),
            module: &module,
            entry_point: Some("move_bytes"),
            compilation_options: Default::default(),
            cache: None,
        });
        Self { pipeline, layout }
    }
}

/// How the bytes of the source repeat.
enum Repeat {
    /// They do not.
    Never,
    /// All of the source, over and over.
    Whole,
}

impl Recorded {
    /// Writes bytes of the host, which the recording keeps.
    pub(super) fn write(&mut self, core: &Core, to: &Place, bytes: &[u8]) -> Result<(), Error> {
        to.needs("write", BufferUsages::COPY_DST)?;
        let from = self.constant(bytes);
        self.move_to(core, from, to)
    }

    /// Copies between two places that do not overlap.
    pub(super) fn copy(&mut self, core: &Core, from: &Place, to: &Place) -> Result<(), Error> {
        from.needs("copy", BufferUsages::COPY_SRC)?;
        to.needs("copy", BufferUsages::COPY_DST)?;
        if from.region.of != to.region.of {
            return self.move_to(core, from.region.clone(), to);
        }
        // No copy of the device has both ends in one buffer.
        let between = self.temporary(0, from.region.bytes);
        self.move_to(core, from.region.clone(), &between)?;
        self.move_to(core, between.region, to)
    }

    /// Repeats `pattern` over a place.
    pub(super) fn fill(&mut self, core: &Core, to: &Place, pattern: &[u8]) -> Result<(), Error> {
        to.needs("fill", BufferUsages::COPY_DST)?;
        if let (Some(bytes), true) = (to.copied(), pattern.iter().all(|&byte| byte == 0)) {
            let to = Region {
                bytes,
                ..to.region.clone()
            };
            self.push(Draft::Clear { to });
            return Ok(());
        }
        let from = self.constant(pattern);
        self.shade(core, &from, to, &Repeat::Whole)
    }

    /// Copies a region, by whichever means.
    pub(super) fn move_to(&mut self, core: &Core, from: Region, to: &Place) -> Result<(), Error> {
        match to.copied() {
            Some(bytes) if from.offset.is_multiple_of(4) => {
                let from = Region { bytes, ..from };
                let to = Region {
                    bytes,
                    ..to.region.clone()
                };
                self.push(Draft::Copy { from, to });
                Ok(())
            }
            _ => self.shade(core, &from, to, &Repeat::Never),
        }
    }

    /// Moves bytes by the shader.
    fn shade(
        &mut self,
        core: &Core,
        from: &Region,
        to: &Place,
        repeat: &Repeat,
    ) -> Result<(), Error> {
        from.needs("read a part of a word", BufferUsages::STORAGE)?;
        to.needs("write a part of a word", BufferUsages::STORAGE)?;
        let Mover { pipeline, layout } = Mover::of(core)?;
        let period = match repeat {
            Repeat::Never => u64::from(u32::MAX),
            Repeat::Whole => from.bytes,
        };
        // With room for what lies around it in its words, and before the alignment.
        let bound = core.limits.max_storage_buffer_binding_size;
        let most = bound.saturating_sub(1 << 10).clamp(THREADS, MOST);
        let mut done = 0;
        while done < to.region.bytes {
            let bytes = (to.region.bytes - done).min(most);
            let target = Region {
                offset: to.region.offset + done,
                bytes,
                ..to.region.clone()
            };
            let (source, phase) = match repeat {
                Repeat::Never => (
                    Region {
                        offset: from.offset + done,
                        bytes,
                        ..from.clone()
                    },
                    0,
                ),
                Repeat::Whole => (from.clone(), done % period),
            };
            let (source, from_byte) = source.window(core);
            let (target, to_byte) = target.window(core);
            let words = [from_byte, to_byte, bytes, period, phase, 0, 0, 0];
            // Each fits: a launch moves no more than `MOST`.
            let words = words.map(|word| u32::try_from(word).unwrap_or(u32::MAX));
            let parameters = self.uniform(core, bytemuck::cast_slice(&words));
            let entry = |binding, region| Bind { binding, region };
            let entries = [entry(0, source), entry(1, target), entry(2, parameters)];
            let limit = u64::from(core.limits.max_compute_workgroups_per_dimension);
            let groups = (bytes / 4 + 2).div_ceil(THREADS).clamp(1, limit);
            self.push(Draft::Dispatch {
                pipeline: pipeline.clone(),
                binds: Binds::one(layout.clone(), entries.into()),
                groups: Workgroups::Direct([u32::try_from(groups).unwrap_or(u32::MAX), 1, 1]),
            });
            done += bytes;
        }
        Ok(())
    }
}

impl Region {
    /// Where a shader can see it: a region around it that may be bound, and where in that it begins.
    fn window(self, core: &Core) -> (Self, u64) {
        let alignment = u64::from(core.limits.min_storage_buffer_offset_alignment).max(4);
        let inside = self.offset % alignment;
        let bytes = (inside + self.bytes).next_multiple_of(4);
        let offset = self.offset - inside;
        (
            Self {
                offset,
                bytes,
                ..self
            },
            inside,
        )
    }
}
