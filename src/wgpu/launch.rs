//! Launches: kernels that know their bindings, and pipelines of the program's own.

use std::hash::{Hash, Hasher};
use std::panic::Location;

use ::wgpu::{BindGroup, BufferUsages, ComputePipeline};
use bytemuck::Pod;

use crate::access::{Accesses, SealedAccesses, Use};
use crate::error::Error;
use crate::memory::{Buffer, Span};
use crate::trace::{Name, NodeKind, no_kernel};

use super::Commands;
use super::device::Wgpu;
use super::kernel::{Binding, Kernel, Parts, Uniform};
use super::memory::Place;
use super::recorded::{Bind, Binds, Draft, Group, Recorded, Region, Source, Workgroups};
use super::scope::Core;
use super::transitions::issue;

/// How many workgroups a launch runs: `n`, `[x, y]`, `[x, y, z]`, or `&counts`, a buffer of three
/// numbers that is read when the launch runs, and anew at every replay.
pub enum Groups<'a> {
    /// So many, by dimension.
    Direct([u32; 3]),
    /// As many as the buffer says when the launch runs. Above the limit of the device, none.
    Indirect(&'a Buffer<u32, Wgpu>),
}

impl From<u32> for Groups<'_> {
    fn from(x: u32) -> Self {
        Self::Direct([x, 1, 1])
    }
}

impl From<[u32; 2]> for Groups<'_> {
    fn from([x, y]: [u32; 2]) -> Self {
        Self::Direct([x, y, 1])
    }
}

impl From<[u32; 3]> for Groups<'_> {
    fn from(groups: [u32; 3]) -> Self {
        Self::Direct(groups)
    }
}

impl<'a> From<&'a Buffer<u32, Wgpu>> for Groups<'a> {
    fn from(counts: &'a Buffer<u32, Wgpu>) -> Self {
        Self::Indirect(counts)
    }
}

/// A bind group of the program's, with its dynamic offsets: `&group`, or `(&group, &offsets)`.
pub struct Bound<'a> {
    group: &'a BindGroup,
    offsets: &'a [u32],
}

impl<'a> From<&'a BindGroup> for Bound<'a> {
    fn from(group: &'a BindGroup) -> Self {
        Self {
            group,
            offsets: &[],
        }
    }
}

impl<'a> From<(&'a BindGroup, &'a [u32])> for Bound<'a> {
    fn from((group, offsets): (&'a BindGroup, &'a [u32])) -> Self {
        Self { group, offsets }
    }
}

impl Commands {
    /// Runs `kernel` in so many workgroups over the buffers of `accesses`, or records it in a window.
    ///
    /// `accesses` is a tuple of one to eight [`read`](crate::read), [`write`](crate::write()) and
    /// [`read_write`](crate::read_write), in the order of the shader's storage bindings. Each says at
    /// least what the shader does; elements are those of the shader, or parts of them.
    ///
    /// # Errors
    /// [`Error::BadLaunch`] where they do not fit the shader, for a count of workgroups of zero or above
    /// the limit, and where the shader takes a value; [`Error::BadMemory`] for an adopted buffer that was
    /// not made for it; [`Error::Aliased`], [`Error::OtherDevice`], [`Error::DeviceLost`], or the driver's
    /// refusal: in a window at [`end`](crate::Stream::end).
    #[track_caller]
    pub fn dispatch<'g, A: Accesses<Wgpu>>(
        &self,
        kernel: &Kernel,
        groups: impl Into<Groups<'g>>,
        accesses: A,
    ) -> Result<(), Error> {
        self.launch_kernel(kernel, groups.into(), &accesses, &[])
    }

    /// As [`dispatch`](Self::dispatch), for a shader with a uniform, which gets `value`: its bytes, as
    /// WGSL lays them out. A recorded launch keeps it.
    ///
    /// # Errors
    /// As [`dispatch`](Self::dispatch), and [`Error::BadLaunch`] for a value of another size.
    #[track_caller]
    pub fn dispatch_with<'g, A: Accesses<Wgpu>, V: Pod>(
        &self,
        kernel: &Kernel,
        groups: impl Into<Groups<'g>>,
        accesses: A,
        value: &V,
    ) -> Result<(), Error> {
        self.launch_kernel(kernel, groups.into(), &accesses, bytemuck::bytes_of(value))
    }

    /// Runs a pipeline of the program's own over bind groups of its own, or records that: `bound` are
    /// groups 0, 1, and so on.
    ///
    /// `accesses` says which adopted buffers it reads and writes. What it does not say is not known: it
    /// is not kept from being destroyed, not marked by failures, and in no order but that of the queue.
    /// [`Graph::nodes`](crate::Graph::nodes) shows such a launch as
    /// [`NodeKind::RawLaunch`].
    ///
    /// # Errors
    /// [`Error::BadLaunch`] for a count of workgroups of zero or above the limit; [`Error::Aliased`],
    /// [`Error::OtherDevice`], [`Error::DeviceLost`], or the driver's refusal: in a window at
    /// [`end`](crate::Stream::end).
    #[track_caller]
    pub fn dispatch_raw<'g, A: Accesses<Wgpu>, B>(
        &self,
        name: impl Into<Name>,
        pipeline: &ComputePipeline,
        bound: &[B],
        groups: impl Into<Groups<'g>>,
        accesses: A,
    ) -> Result<(), Error>
    where
        B: Copy + Into<Bound<'g>>,
    {
        let (name, groups) = (name.into(), groups.into());
        let bound: Vec<Bound<'g>> = bound.iter().map(|&bound| bound.into()).collect();
        let mut values = Values(groups.values());
        pipeline.hash(&mut values);
        for Bound { group, offsets } in &bound {
            group.hash(&mut values);
            offsets.hash(&mut values);
        }
        let binds = || {
            let theirs = bound.iter();
            Binds::Theirs(
                theirs
                    .map(|bound| (bound.group.clone(), bound.offsets.into()))
                    .collect(),
            )
        };
        self.launch_over(
            NodeKind::RawLaunch,
            name.clone(),
            no_kernel(),
            &values.0,
            &Counted {
                accesses: &accesses,
                groups: &groups,
            },
            |call, _| {
                issue(&call, "launch", |core, recorded| {
                    let groups = groups.checked(core, &name)?;
                    recorded.push(Draft::Dispatch {
                        pipeline: pipeline.clone(),
                        binds: binds(),
                        groups,
                    });
                    Ok(())
                })
            },
        )
    }

    #[track_caller]
    fn launch_kernel<A: Accesses<Wgpu>>(
        &self,
        kernel: &Kernel,
        groups: Groups<'_>,
        accesses: &A,
        value: &[u8],
    ) -> Result<(), Error> {
        let parts = kernel.parts();
        let mut values = groups.values();
        values.extend_from_slice(&parts.id.to_ne_bytes());
        values.extend_from_slice(value);
        let at = Location::caller();
        self.launch_over(
            NodeKind::Launch,
            parts.name.clone(),
            // Its number is among the values.
            no_kernel(),
            &values,
            &Counted {
                accesses,
                groups: &groups,
            },
            |call, uses| {
                if parts.core != call.device().core().id {
                    return Err(Error::OtherDevice {
                        call: "launch",
                        what: "kernel",
                        at,
                    });
                }
                issue(&call, "launch", |core, recorded| {
                    let uses = uses.iter().zip(A::ELEMENTS.iter().copied());
                    Launch { core, parts, value }.draft(recorded, uses, &groups)
                })
            },
        )
    }
}

/// The accesses of a launch, and behind them the read of its counts.
struct Counted<'a, A> {
    accesses: &'a A,
    groups: &'a Groups<'a>,
}

impl<A: SealedAccesses<Wgpu>> SealedAccesses<Wgpu> for Counted<'_, A> {
    const ELEMENTS: &'static [usize] = A::ELEMENTS;

    fn with_uses<R>(&self, then: impl FnOnce(&[Use<'_, Wgpu>]) -> R) -> R {
        self.accesses.with_uses(|uses| match self.groups {
            Groups::Direct(_) => then(uses),
            Groups::Indirect(counts) => {
                let declared = uses.iter().map(|used| Use {
                    mode: used.mode,
                    span: used.span,
                });
                let counts = std::iter::once(Use::read(counts.span()));
                then(&declared.chain(counts).collect::<Vec<_>>())
            }
        })
    }
}

impl Groups<'_> {
    /// What makes it another launch (L9).
    fn values(&self) -> Vec<u8> {
        match self {
            Self::Direct(groups) => bytemuck::bytes_of(groups).to_vec(),
            Self::Indirect(_) => b"indirect".to_vec(),
        }
    }

    fn counts(&self) -> Option<Span<'_, Wgpu>> {
        match self {
            Self::Direct(_) => None,
            Self::Indirect(counts) => Some(counts.span()),
        }
    }

    fn checked(&self, core: &Core, name: &str) -> Result<Workgroups, Error> {
        match self {
            Self::Direct(groups) => {
                let most = core.limits.max_compute_workgroups_per_dimension;
                if groups.contains(&0) {
                    return Err(refuse(
                        name,
                        format!("{groups:?} workgroups run nothing; leave the launch out"),
                    ));
                }
                if groups.iter().any(|&count| count > most) {
                    return Err(refuse(
                        name,
                        format!(
                            "{groups:?} workgroups are more than the {most} of a dimension on this \
                             device; use another dimension, or let each thread do more"
                        ),
                    ));
                }
                Ok(Workgroups::Direct(*groups))
            }
            Self::Indirect(counts) => {
                let place = Place::of(counts.span());
                place.needs("launch", BufferUsages::INDIRECT)?;
                match place.region {
                    Region {
                        of: Source::Buffer(buffer),
                        offset,
                        bytes: 12,
                    } => Ok(Workgroups::Indirect(buffer, offset)),
                    _ => Err(refuse(
                        name,
                        format!(
                            "counts are three numbers, and there are {}; pass a slice",
                            counts.len()
                        ),
                    )),
                }
            }
        }
    }
}

#[cold]
fn refuse(name: &str, why: String) -> Error {
    Error::BadLaunch {
        name: name.into(),
        why: why.into(),
        at: None,
    }
}

/// A launch of a kernel that is checked against its shader.
struct Launch<'a> {
    core: &'a Core,
    parts: &'a Parts,
    value: &'a [u8],
}

impl Launch<'_> {
    fn draft<'u>(
        &self,
        recorded: &mut Recorded,
        uses: impl ExactSizeIterator<Item = (&'u Use<'u, Wgpu>, usize)> + Clone,
        groups: &Groups<'_>,
    ) -> Result<(), Error> {
        let parts = self.parts;
        if uses.len() != parts.bindings.len() {
            let names: Vec<_> = parts
                .bindings
                .iter()
                .map(|binding| &*binding.name)
                .collect();
            return Err(self.refuse(format!(
                "it was given {} buffers, and the shader has {}: {}; give one for each, in order",
                uses.len(),
                names.len(),
                names.join(", ")
            )));
        }
        let counts = groups.counts();
        let groups = groups.checked(self.core, &parts.name)?;
        let mut binds = Vec::with_capacity(parts.bindings.len() + 1);
        let mut after = Vec::new();
        for (number, (binding, (used, element))) in
            parts.bindings.iter().zip(uses.clone()).enumerate()
        {
            self.check(binding, used, element)?;
            let place = Place::of(used.span);
            let alone = || {
                let mut others = parts.bindings.iter().zip(uses.clone());
                others.all(|(other, (use_, _))| {
                    other.read_only == binding.read_only || !use_.span.is_same_memory(&used.span)
                })
            };
            // Where a shader may write, wgpu lets nothing be read beside it, and counts are.
            let is_counts = || counts.is_some_and(|counts| counts.is_same_memory(&used.span));
            let is_free = if binding.read_only {
                alone()
            } else {
                !is_counts()
            };
            let region = if self.is_aligned(&place) && is_free {
                place.needs("launch", BufferUsages::STORAGE)?;
                place.region
            } else {
                place.needs("launch over a part of it", BufferUsages::COPY_SRC)?;
                let stand_in = recorded.temporary(number + 1, place.region.bytes);
                recorded.move_to(self.core, place.region.clone(), &stand_in)?;
                if used.mode.writes() {
                    place.needs("launch over a part of it", BufferUsages::COPY_DST)?;
                    after.push((stand_in.region.clone(), place));
                }
                stand_in.region
            };
            let bind = Bind {
                binding: binding.binding,
                region,
            };
            binds.push((binding.group, bind));
        }
        if let Some(uniform) = self.value()? {
            let region = recorded.uniform(self.core, self.value);
            let bind = Bind {
                binding: uniform.binding,
                region,
            };
            binds.push((uniform.group, bind));
        }
        recorded.push(Draft::Dispatch {
            pipeline: parts.pipeline.clone(),
            binds: self.groups(binds),
            groups,
        });
        for (from, to) in after {
            recorded.move_to(self.core, from, &to)?;
        }
        Ok(())
    }

    /// Bindings by group.
    fn groups(&self, binds: Vec<(u32, Bind)>) -> Binds {
        if let [(index, layout)] = &*self.parts.layouts {
            let entries = binds.into_iter().map(|(_, bind)| bind).collect();
            let group = Group {
                index: *index,
                layout: layout.clone(),
                entries,
            };
            return Binds::Ours([group].into());
        }
        let mut groups: Vec<_> = self.parts.layouts.iter().map(|_| Vec::new()).collect();
        for (group, bind) in binds {
            let mut places = self.parts.layouts.iter();
            let place = places.position(|(index, _)| *index == group);
            if let Some(binds) = place.and_then(|place| groups.get_mut(place)) {
                binds.push(bind);
            }
        }
        let made = self.parts.layouts.iter().zip(groups);
        let group = |((index, layout), binds): (&(u32, _), Vec<_>)| Group {
            index: *index,
            layout: ::wgpu::BindGroupLayout::clone(layout),
            entries: binds.into(),
        };
        Binds::Ours(made.map(group).collect())
    }

    /// The uniform, if the shader has one, and its value fits.
    fn value(&self) -> Result<Option<&Uniform>, Error> {
        let given = self.value.len();
        match &self.parts.uniform {
            None if given == 0 => Ok(None),
            None => Err(self.refuse(format!(
                "it was given a value of {given} bytes, and the shader has no uniform; use `dispatch`"
            ))),
            Some(uniform) if uniform.bytes == given as u64 => Ok(Some(uniform)),
            Some(Uniform { name, bytes, .. }) => Err(self.refuse(format!(
                "its uniform `{name}` has {bytes} bytes, and the value {given}; give it by \
                 `dispatch_with`, laid out as WGSL does"
            ))),
        }
    }

    fn check(&self, binding: &Binding, used: &Use<'_, Wgpu>, element: usize) -> Result<(), Error> {
        let Binding { name, shape, .. } = binding;
        let (declared, mode) = (used.mode.name(), used.mode);
        if (binding.writes && !mode.writes()) || (binding.reads && !mode.reads()) {
            let does = match (binding.reads, binding.writes) {
                (true, true) => "reads and writes",
                (true, false) => "reads",
                _ => "writes",
            };
            return Err(self.refuse(format!(
                "the shader {does} `{name}`, which was declared as `{declared}`; declare what it does"
            )));
        }
        let bytes = used.span.bytes() as u64;
        if let Some(stride) = shape.stride
            && (!stride.is_multiple_of(element as u64) || !bytes.is_multiple_of(stride))
        {
            return Err(self.refuse(format!(
                "elements of `{name}` take {stride} bytes in the shader, and the buffer has {bytes} \
                 bytes in elements of {element}; use elements of that size, or parts of them"
            )));
        }
        if bytes < shape.least || !bytes.is_multiple_of(4) {
            return Err(self.refuse(format!(
                "`{name}` takes at least {} bytes in the shader, in words of four, and the buffer has \
                 {bytes}; make it longer",
                shape.least
            )));
        }
        let most = self.core.limits.max_storage_buffer_binding_size;
        if bytes > most {
            return Err(self.refuse(format!(
                "`{name}` would be {bytes} bytes, and this device binds {most} at most; pass a slice"
            )));
        }
        Ok(())
    }

    fn is_aligned(&self, place: &Place) -> bool {
        let alignment = u64::from(self.core.limits.min_storage_buffer_offset_alignment);
        place.region.offset.is_multiple_of(alignment.max(4))
    }

    #[cold]
    fn refuse(&self, why: String) -> Error {
        refuse(&self.parts.name, why)
    }
}

/// Takes what a handle of wgpu hashes, which is what it is: equal handles leave equal bytes.
struct Values(Vec<u8>);

impl Hasher for Values {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        // Nobody asks.
        0
    }
}
