//! What a window records: copies, clears and launches over regions of bytes. An eager command is a
//! recording of one command.

use ::wgpu::{BindGroup, BindGroupLayout, Buffer, ComputePipeline};
use rustc_hash::FxHashMap;

use crate::error::Error;

use super::device::Given;
use super::memory::Place;
use super::program::{Maker, Program};
use super::scope::Core;

/// Whose bytes a step uses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Buffer(Buffer),
    /// What the recording keeps: bytes of recorded writes, patterns, values of launches.
    Constants,
    /// Memory between two steps of one command. Those of one number share it.
    Temporary(usize),
}

/// Bytes that a step uses.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Region {
    pub(super) of: Source,
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// One step of a recording.
pub(super) enum Draft {
    Copy {
        from: Region,
        to: Region,
    },
    Clear {
        to: Region,
    },
    Dispatch {
        pipeline: ComputePipeline,
        binds: Binds,
        groups: Workgroups,
    },
}

/// The bind groups of a launch.
pub(super) enum Binds {
    /// To be made.
    Ours(Box<[Group]>),
    /// The program's, with their dynamic offsets.
    Theirs(Box<[(BindGroup, Box<[u32]>)]>),
}

impl Binds {
    pub(super) fn one(layout: BindGroupLayout, entries: Box<[Bind]>) -> Self {
        Self::Ours(
            [Group {
                index: 0,
                layout,
                entries,
            }]
            .into(),
        )
    }
}

/// A bind group to be made. Equal ones are made once.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Group {
    pub(super) index: u32,
    pub(super) layout: BindGroupLayout,
    pub(super) entries: Box<[Bind]>,
}

#[derive(PartialEq, Eq, Hash)]
pub(super) struct Bind {
    pub(super) binding: u32,
    pub(super) region: Region,
}

/// How many workgroups run.
#[derive(Clone)]
pub(super) enum Workgroups {
    Direct([u32; 3]),
    /// Three numbers at an offset of a buffer, read when it runs.
    Indirect(Buffer, u64),
}

/// What a window has recorded.
#[derive(Default)]
pub struct Recorded {
    pub(super) drafts: Vec<Draft>,
    /// Where the drafts of each command end.
    ends: Vec<usize>,
    pub(super) constants: Vec<u8>,
    /// Where values of launches are among the constants.
    uniforms: FxHashMap<Box<[u8]>, u64>,
    /// The sizes of the temporaries.
    pub(super) temporaries: Vec<u64>,
}

impl Recorded {
    /// Takes a command in.
    ///
    /// # Errors
    /// What `draft` refuses.
    pub(super) fn command(
        &mut self,
        draft: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        draft(self)?;
        self.ends.push(self.drafts.len());
        Ok(())
    }

    pub(super) fn push(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Keeps bytes of the host.
    pub(super) fn constant(&mut self, bytes: &[u8]) -> Region {
        // Room to copy whole words, and to bind what lies there.
        self.constants
            .resize(self.constants.len().next_multiple_of(16), 0);
        let offset = self.constants.len() as u64;
        self.constants.extend_from_slice(bytes);
        Region {
            of: Source::Constants,
            offset,
            bytes: bytes.len() as u64,
        }
    }

    /// Keeps a value that launches are given. Equal ones are kept once.
    pub(super) fn uniform(&mut self, core: &Core, bytes: &[u8]) -> Region {
        let of = |offset| Region {
            of: Source::Constants,
            offset,
            bytes: bytes.len() as u64,
        };
        if let Some(&offset) = self.uniforms.get(bytes) {
            return of(offset);
        }
        let alignment = core.limits.min_uniform_buffer_offset_alignment.max(16) as usize;
        self.constants
            .resize(self.constants.len().next_multiple_of(alignment), 0);
        let region = self.constant(bytes);
        self.uniforms.insert(bytes.into(), region.offset);
        region
    }

    /// Memory between the steps of one command: those of different numbers are different memory.
    pub(super) fn temporary(&mut self, number: usize, bytes: u64) -> Place {
        if self.temporaries.len() <= number {
            self.temporaries.resize(number + 1, 0);
        }
        let bytes_all = bytes.next_multiple_of(16);
        if let Some(size) = self.temporaries.get_mut(number) {
            *size = bytes_all.max(*size);
        }
        Place {
            region: Region {
                of: Source::Temporary(number),
                offset: 0,
                bytes,
            },
            may_round_up: true,
        }
    }

    /// Makes it executable, and has wgpu check all of it: wgpu tells what is wrong with recorded
    /// commands only when an encoder is finished.
    ///
    /// # Errors
    /// [`Error::RefusedAtSeal`] with the first bad command, or the driver's refusal.
    pub(super) fn seal(self, core: &Core) -> Result<Program, Error> {
        let sealed = core.scoped("end", || {
            let program = self.program(core)?;
            drop(program.encode(core));
            Ok(program)
        });
        let sealed = sealed.flatten();
        // A lost device finds nothing wrong.
        core.probe()?;
        sealed.map_err(|refused| match refused {
            lost @ Error::DeviceLost { .. } => lost,
            refused => self.first_refused(core).unwrap_or(refused),
        })
    }

    /// Which command is at fault: encoded one by one, since only an error pays for it.
    fn first_refused(&self, core: &Core) -> Option<Error> {
        // Made once for all. Where there is no room for it, no command is at fault.
        let shared = core.scoped("end", || Maker::new(self, core));
        let shared = shared.flatten().ok()?;
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .enumerate()
            .find_map(|(index, (begin, &end))| {
                let alone = core.scoped("end", || {
                    let drafts = self.drafts.get(begin..end).unwrap_or_default();
                    let program = Program::resolve(&shared, drafts)?;
                    drop(program.encode(core));
                    Ok(())
                });
                let refused = alone.flatten().err()?;
                Some(Error::refused_at_seal(index, refused))
            })
    }

    /// Runs a command that was just taken in.
    pub(super) fn run(self, given: &Given, call: &'static str) -> Result<(), Error> {
        let core = &*given.core;
        given
            .submit(call, || Ok(Some(self.program(core)?.encode(core))))
            .map(drop)
    }

    /// All of it, made. To be called in a scope.
    pub(super) fn program(&self, core: &Core) -> Result<Program, Error> {
        Program::resolve(&Maker::new(self, core)?, &self.drafts)
    }
}
