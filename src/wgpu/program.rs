//! What a recording becomes: a list of steps with every bind group made, encoded anew for each replay.

use std::collections::hash_map::Entry;
use std::num::NonZeroU64;
use std::ops::Range;

use ::wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding,
    BufferDescriptor, BufferUsages, CommandBuffer, CommandEncoder, ComputePass, ComputePipeline,
};
use rustc_hash::FxHashMap;

use crate::error::Error;

use super::recorded::{Bind, Binds, Draft, Group, Recorded, Source, Workgroups};
use super::scope::Core;

/// What regions name, once it is made.
pub(super) struct Maker<'a> {
    core: &'a Core,
    constants: Option<Buffer>,
    temporaries: Vec<Buffer>,
}

impl<'a> Maker<'a> {
    /// Makes buffers for constants and temporaries. To be called in a scope.
    pub(super) fn new(recorded: &Recorded, core: &'a Core) -> Result<Self, Error> {
        Ok(Self {
            core,
            constants: constants(core, &recorded.constants)?,
            temporaries: temporaries(core, &recorded.temporaries)?,
        })
    }

    fn buffer<'b>(&'b self, of: &'b Source) -> Result<&'b Buffer, Error> {
        let buffer = match of {
            Source::Buffer(buffer) => Some(buffer),
            Source::Constants => self.constants.as_ref(),
            Source::Temporary(number) => self.temporaries.get(*number),
        };
        // Whoever drafts a region asks for its memory in the same breath.
        buffer.ok_or_else(|| Error::driver("end", "a recorded region has no memory"))
    }

    fn group(&self, group: &Group) -> Result<BindGroup, Error> {
        let mut entries = Vec::with_capacity(group.entries.len());
        for Bind { binding, region } in &group.entries {
            entries.push(BindGroupEntry {
                binding: *binding,
                resource: BindingResource::Buffer(BufferBinding {
                    buffer: self.buffer(&region.of)?,
                    offset: region.offset,
                    size: NonZeroU64::new(region.bytes),
                }),
            });
        }
        Ok(self.core.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &group.layout,
            entries: &entries,
        }))
    }
}

fn constants(core: &Core, bytes: &[u8]) -> Result<Option<Buffer>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    // As far as a copy of whole words, or a binding, reads.
    let size = bytes.len().next_multiple_of(16) + 16;
    if size as u64 > core.limits.max_buffer_size {
        return Err(Error::out_of_memory(size));
    }
    let buffer = core.device.create_buffer(&BufferDescriptor {
        label: Some("constants"),
        size: size as u64,
        usage: BufferUsages::UNIFORM | BufferUsages::STORAGE | BufferUsages::COPY_SRC,
        mapped_at_creation: true,
    });
    match buffer.get_mapped_range_mut(..bytes.len().next_multiple_of(16) as u64) {
        Ok(mut mapped) => mapped.slice(..bytes.len()).copy_from_slice(bytes),
        Err(refused) => return Err(Error::driver("keep constants", refused)),
    }
    buffer.unmap();
    Ok(Some(buffer))
}

fn temporaries(core: &Core, sizes: &[u64]) -> Result<Vec<Buffer>, Error> {
    let make = |&size: &u64| {
        if size > core.limits.max_buffer_size {
            return Err(Error::out_of_memory(
                usize::try_from(size).unwrap_or(usize::MAX),
            ));
        }
        Ok(core.device.create_buffer(&BufferDescriptor {
            label: Some("between steps"),
            size: size.max(16),
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        }))
    };
    sizes.iter().map(make).collect()
}

/// What can be encoded at once.
#[derive(Default)]
pub struct Program {
    steps: Vec<Step>,
    /// The steps in order: runs of copies, and passes of launches.
    runs: Vec<Run>,
}

static_assertions::assert_impl_all!(Program: Send);

enum Run {
    Copies(Range<usize>),
    Pass(Range<usize>),
}

enum Step {
    Copy {
        from: (Buffer, u64),
        to: (Buffer, u64),
        bytes: u64,
    },
    Clear {
        to: Buffer,
        range: Range<u64>,
    },
    Dispatch {
        /// Only what differs from the launch before in the pass.
        pipeline: Option<ComputePipeline>,
        binds: Box<[(u32, Bound)]>,
        groups: Workgroups,
    },
}

/// A bind group with its dynamic offsets.
type Bound = (BindGroup, Box<[u32]>);

/// What is set in a pass.
#[derive(Default)]
struct Set {
    pipeline: Option<ComputePipeline>,
    binds: FxHashMap<u32, Bound>,
}

impl Program {
    /// Makes all bind groups. To be called in a scope.
    #[expect(
        clippy::mutable_key_type,
        reason = "handles of wgpu hash and compare by what they name"
    )]
    pub(super) fn resolve(maker: &Maker<'_>, drafts: &[Draft]) -> Result<Self, Error> {
        let mut program = Self::default();
        let mut groups = FxHashMap::default();
        let mut set = Set::default();
        for draft in drafts {
            match draft {
                Draft::Copy { from, to } => program.push(Step::Copy {
                    from: (maker.buffer(&from.of)?.clone(), from.offset),
                    to: (maker.buffer(&to.of)?.clone(), to.offset),
                    bytes: to.bytes,
                }),
                Draft::Clear { to } => program.push(Step::Clear {
                    to: maker.buffer(&to.of)?.clone(),
                    range: to.offset..to.offset + to.bytes,
                }),
                Draft::Dispatch {
                    pipeline,
                    binds,
                    groups: workgroups,
                } => {
                    let binds = match binds {
                        Binds::Theirs(theirs) => (0..).zip(theirs.iter().cloned()).collect(),
                        Binds::Ours(ours) => {
                            let made = ours.iter().map(|group| {
                                let made = match groups.entry(group) {
                                    Entry::Occupied(made) => made.into_mut(),
                                    Entry::Vacant(place) => place.insert(maker.group(group)?),
                                };
                                Ok((group.index, (made.clone(), Box::default())))
                            });
                            made.collect::<Result<_, Error>>()?
                        }
                    };
                    program.dispatch(&mut set, pipeline, binds, workgroups.clone());
                }
            }
        }
        Ok(program)
    }

    fn push(&mut self, step: Step) {
        let here = self.steps.len();
        let launches = matches!(step, Step::Dispatch { .. });
        self.steps.push(step);
        match self.runs.last_mut() {
            Some(Run::Pass(range)) if launches => range.end = here + 1,
            Some(Run::Copies(range)) if !launches => range.end = here + 1,
            _ if launches => self.runs.push(Run::Pass(here..here + 1)),
            _ => self.runs.push(Run::Copies(here..here + 1)),
        }
    }

    /// Adds a launch that sets what is not yet set.
    fn dispatch(
        &mut self,
        set: &mut Set,
        pipeline: &ComputePipeline,
        mut binds: Vec<(u32, Bound)>,
        groups: Workgroups,
    ) {
        if !matches!(self.runs.last(), Some(Run::Pass(_))) {
            // A new pass has nothing set.
            *set = Set::default();
        }
        let differs = set.pipeline.as_ref() != Some(pipeline);
        if differs {
            set.pipeline = Some(pipeline.clone());
        }
        binds.retain(|(index, bound)| set.binds.get(index) != Some(bound));
        set.binds.extend(binds.iter().cloned());
        self.push(Step::Dispatch {
            pipeline: differs.then(|| pipeline.clone()),
            binds: binds.into(),
            groups,
        });
    }

    /// Encodes all of it. To be called in a scope.
    pub(super) fn encode(&self, core: &Core) -> CommandBuffer {
        let mut encoder = core.device.create_command_encoder(&Default::default());
        for run in &self.runs {
            match run {
                Run::Copies(range) => {
                    for step in self.steps.get(range.clone()).unwrap_or_default() {
                        step.copy(&mut encoder);
                    }
                }
                Run::Pass(range) => {
                    let mut pass = encoder.begin_compute_pass(&Default::default());
                    for step in self.steps.get(range.clone()).unwrap_or_default() {
                        step.launch(&mut pass);
                    }
                }
            }
        }
        encoder.finish()
    }
}

impl Step {
    fn copy(&self, encoder: &mut CommandEncoder) {
        match self {
            Self::Copy { from, to, bytes } => {
                encoder.copy_buffer_to_buffer(&from.0, from.1, &to.0, to.1, *bytes);
            }
            Self::Clear { to, range } => {
                encoder.clear_buffer(to, range.start, Some(range.end - range.start));
            }
            Self::Dispatch { .. } => {}
        }
    }

    fn launch(&self, pass: &mut ComputePass<'_>) {
        let Self::Dispatch {
            pipeline,
            binds,
            groups,
        } = self
        else {
            return;
        };
        if let Some(pipeline) = pipeline {
            pass.set_pipeline(pipeline);
        }
        for (index, (group, offsets)) in binds {
            pass.set_bind_group(*index, group, offsets);
        }
        match groups {
            Workgroups::Direct([x, y, z]) => pass.dispatch_workgroups(*x, *y, *z),
            Workgroups::Indirect(counts, offset) => {
                pass.dispatch_workgroups_indirect(counts, *offset);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Region;
    use super::*;
    use crate::wgpu::{Kernel, Wgpu};

    const SHADER: &str = "
        @group(0) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn one() { y[0] = 1.0; }
        @compute @workgroup_size(1) fn two() { y[0] = 2.0; }";

    /// As few passes as copies allow, and in each what differs from the launch before.
    #[test]
    fn launches_between_copies_share_a_pass_and_set_only_what_changes() {
        let (device, queue) = ::wgpu::Device::noop(&Default::default());
        let device = Wgpu::adopt(device, queue);
        let core = device.core();
        let [one, two] = ["one", "two"].map(|entry| Kernel::new(&device, SHADER, entry).unwrap());
        let [x, y] = [(); 2].map(|()| {
            core.device.create_buffer(&BufferDescriptor {
                label: None,
                size: 16,
                usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        });
        let region = |buffer: &Buffer| Region {
            of: Source::Buffer(buffer.clone()),
            offset: 0,
            bytes: 16,
        };
        let launch = |kernel: &Kernel, buffer| Draft::Dispatch {
            pipeline: kernel.parts().pipeline.clone(),
            binds: Binds::one(
                // One layout for both, as one pipeline layout would have.
                one.parts().layouts[0].1.clone(),
                [Bind {
                    binding: 0,
                    region: region(buffer),
                }]
                .into(),
            ),
            groups: Workgroups::Direct([1; 3]),
        };
        let mut recorded = Recorded::default();
        let drafts = [
            launch(&one, &x),
            launch(&one, &x),
            launch(&two, &x),
            launch(&two, &y),
            Draft::Clear { to: region(&x) },
            Draft::Clear { to: region(&y) },
            launch(&two, &y),
        ];
        drafts.into_iter().for_each(|draft| recorded.push(draft));
        let program = recorded.program(core).unwrap();

        let runs: Vec<_> = program
            .runs
            .iter()
            .map(|run| match run {
                Run::Pass(range) => ("pass", range.clone()),
                Run::Copies(range) => ("copies", range.clone()),
            })
            .collect();
        assert_eq!(runs, [("pass", 0..4), ("copies", 4..6), ("pass", 6..7)]);
        let set: Vec<_> = program
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Dispatch {
                    pipeline, binds, ..
                } => Some((pipeline.is_some(), binds.len())),
                _ => None,
            })
            .collect();
        let (all, nothing) = ((true, 1), (false, 0));
        assert_eq!(set, [all, nothing, (true, 0), (false, 1), all]);
        assert!(core.scoped("encode", || program.encode(core)).is_ok());
    }
}
