//! Kernels from WGSL: what a shader says of its bindings, read with wgpu's own naga.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ::wgpu::naga::front::wgsl;
use ::wgpu::naga::valid::{Capabilities, FunctionInfo, GlobalUse, ValidationFlags, Validator};
use ::wgpu::naga::{
    AddressSpace, ArraySize, EntryPoint, GlobalVariable, Module, ResourceBinding, ShaderStage,
    StorageAccess, Type, TypeInner,
};
use ::wgpu::{
    BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType,
    BufferBindingType, ComputePipeline, PipelineLayoutDescriptor, ShaderStages,
};
use rustc_hash::FxHashMap;

use crate::error::Error;

use super::device::Wgpu;
use super::scope::{Core, lock};

/// The kernels of a device, by source and entry point.
pub(super) type Kernels = FxHashMap<(Box<str>, Box<str>), Kernel>;

/// A compute shader of a device, and what it says of its bindings.
///
/// A clone is the same kernel, and so is one made of the same source and entry point again: it is
/// compiled once a device, and stays as long as the device does.
#[derive(Clone)]
pub struct Kernel {
    parts: Arc<Parts>,
}

static_assertions::assert_impl_all!(Kernel: Clone, Send, Sync);

pub(super) struct Parts {
    /// Unique in the process.
    pub(super) id: u64,
    /// The device's.
    pub(super) core: u64,
    pub(super) name: Cow<'static, str>,
    pub(super) pipeline: ComputePipeline,
    /// By group. Those between, which the shader does not use, are left out.
    pub(super) layouts: Vec<(u32, BindGroupLayout)>,
    /// The storage bindings, by group and binding.
    pub(super) bindings: Vec<Binding>,
    pub(super) uniform: Option<Uniform>,
    workgroup_size: [u32; 3],
}

/// A storage binding of a shader.
pub(super) struct Binding {
    pub(super) group: u32,
    pub(super) binding: u32,
    pub(super) name: Box<str>,
    /// What the entry point does with it.
    pub(super) reads: bool,
    pub(super) writes: bool,
    /// How it is declared.
    pub(super) read_only: bool,
    pub(super) shape: Shape,
}

/// The bytes of a binding.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// At least so many.
    pub(super) least: u64,
    /// An array of elements so far apart, where the binding is one.
    pub(super) stride: Option<u64>,
}

/// The uniform binding of a shader.
pub(super) struct Uniform {
    pub(super) group: u32,
    pub(super) binding: u32,
    pub(super) name: Box<str>,
    pub(super) bytes: u64,
}

impl Kernel {
    /// The entry point `entry` of a WGSL source, compiled for `device`.
    ///
    /// The storage buffers that the entry point uses, in the order of group and binding, are what a
    /// launch declares with [`read`](crate::read), [`write`](crate::write()) and
    /// [`read_write`](crate::read_write). It may have one uniform, whose value a launch is given: put
    /// several numbers into a struct. Other resources belong in a pipeline of your own, launched by
    /// [`dispatch_raw`](super::Commands::dispatch_raw).
    ///
    /// # Errors
    /// [`Error::BadKernel`] where the source does not compile, has no such entry point, or uses what a
    /// kernel cannot have, such as a group above the limit of the device; [`Error::DeviceLost`], or the driver's refusal.
    pub fn new(
        device: &Wgpu,
        source: &str,
        entry: impl Into<Cow<'static, str>>,
    ) -> Result<Self, Error> {
        let (core, entry) = (device.core(), entry.into());
        let key = (source.into(), entry.as_ref().into());
        if let Some(known) = lock(&core.kernels).get(&key) {
            return Ok(known.clone());
        }
        let made = Self {
            parts: Arc::new(compile(core, source, entry)?),
        };
        // Where two threads make it at once, the first is the one.
        Ok(lock(&core.kernels).entry(key).or_insert(made).clone())
    }

    /// The entry point.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// The threads of a workgroup, by dimension.
    #[must_use]
    pub fn workgroup_size(&self) -> [u32; 3] {
        self.parts.workgroup_size
    }

    /// As many workgroups as it takes for `threads` threads in the first dimension.
    #[must_use]
    pub fn cover(&self, threads: u32) -> u32 {
        let [x, ..] = self.parts.workgroup_size;
        threads.div_ceil(x.max(1))
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.parts.name).finish()
    }
}

fn compile(core: &Core, source: &str, name: Cow<'static, str>) -> Result<Parts, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let interface = Interface::read(source, &name, &core.limits)?;
    let (layouts, pipeline) = core.scoped("make a kernel", || {
        let layouts = interface.layouts(&core.device);
        let pipeline = pipeline(&core.device, source, &name, &layouts);
        (layouts, pipeline)
    })?;
    Ok(Parts {
        id: NEXT.fetch_add(1, Ordering::Relaxed),
        core: core.id,
        name,
        pipeline,
        layouts,
        bindings: interface.bindings,
        uniform: interface.uniform,
        workgroup_size: interface.workgroup_size,
    })
}

fn pipeline(
    device: &::wgpu::Device,
    source: &str,
    name: &str,
    layouts: &[(u32, BindGroupLayout)],
) -> ComputePipeline {
    let count = layouts.last().map_or(0, |(group, _)| group + 1);
    let layout_of = |group| {
        let found = layouts.iter().find(|(index, _)| *index == group);
        found.map(|(_, layout)| layout)
    };
    let bind_group_layouts: Vec<_> = (0..count).map(layout_of).collect();
    let layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label: Some(name),
        bind_group_layouts: &bind_group_layouts,
        immediate_size: 0,
    });
    let module = device.create_shader_module(::wgpu::ShaderModuleDescriptor {
        label: Some(name),
        source: ::wgpu::ShaderSource::Wgsl(source.into()),
    });
    device.create_compute_pipeline(&::wgpu::ComputePipelineDescriptor {
        label: Some(name),
        layout: Some(&layout),
        module: &module,
        entry_point: Some(name),
        compilation_options: Default::default(),
        cache: None,
    })
}

/// What a shader says of itself.
struct Interface {
    bindings: Vec<Binding>,
    uniform: Option<Uniform>,
    workgroup_size: [u32; 3],
}

impl Interface {
    fn read(source: &str, name: &str, limits: &::wgpu::Limits) -> Result<Self, Error> {
        let refuse = |why: String| Error::BadKernel {
            name: name.into(),
            why: why.into(),
        };
        let module = wgsl::parse_str(source).map_err(|error| {
            refuse(format!(
                "it does not compile: {}",
                error.emit_to_string(source)
            ))
        })?;
        let info = Validator::new(ValidationFlags::all(), Capabilities::all())
            .validate(&module)
            .map_err(|error| {
                refuse(format!("it is not valid: {}", error.emit_to_string(source)))
            })?;
        let mut entries = module.entry_points.iter().enumerate();
        let (index, entry) = entries
            .find(|(_, entry)| entry.name == name && entry.stage == ShaderStage::Compute)
            .ok_or_else(|| refuse(no_entry(&module)))?;
        if entry.workgroup_size_overrides.is_some() {
            return Err(refuse(
                "its workgroup size is an override; write it as a number".into(),
            ));
        }
        let mut read = Self {
            bindings: Vec::new(),
            uniform: None,
            workgroup_size: entry.workgroup_size,
        };
        read.globals(&module, info.get_entry_point(index))
            .map_err(refuse)?;
        read.check(limits).map_err(refuse)?;
        read.bindings
            .sort_by_key(|binding| (binding.group, binding.binding));
        Ok(read)
    }

    /// Reads the globals that the entry point uses.
    fn globals(&mut self, module: &Module, uses: &FunctionInfo) -> Result<(), String> {
        for (handle, global) in module.global_variables.iter() {
            let (used, Some(place)) = (uses[handle], global.binding) else {
                continue;
            };
            if used.is_empty() {
                continue;
            }
            self.global(module, global, place, used)?;
        }
        Ok(())
    }

    fn global(
        &mut self,
        module: &Module,
        global: &GlobalVariable,
        ResourceBinding { group, binding }: ResourceBinding,
        used: GlobalUse,
    ) -> Result<(), String> {
        let name: Box<str> = global.name.as_deref().unwrap_or("without a name").into();
        match global.space {
            AddressSpace::Storage { access } => {
                self.bindings.push(Binding {
                    group,
                    binding,
                    name,
                    reads: used.intersects(GlobalUse::READ | GlobalUse::ATOMIC),
                    writes: used.intersects(GlobalUse::WRITE | GlobalUse::ATOMIC),
                    read_only: !access.contains(StorageAccess::STORE),
                    shape: Shape::of(module, &module.types[global.ty]),
                });
                Ok(())
            }
            AddressSpace::Uniform => {
                if let Some(other) = &self.uniform {
                    return Err(format!(
                        "it has two uniforms, `{}` and `{name}`; put their values into one struct",
                        other.name
                    ));
                }
                self.uniform = Some(Uniform {
                    group,
                    binding,
                    name,
                    bytes: Shape::of(module, &module.types[global.ty]).least,
                });
                Ok(())
            }
            _ => Err(format!(
                "its binding `{name}` is no buffer; launch a pipeline of your own by `dispatch_raw`"
            )),
        }
    }

    /// Whether the device has room for it.
    fn check(&self, limits: &::wgpu::Limits) -> Result<(), String> {
        let storage = self.bindings.iter().map(|binding| binding.group);
        let uniform = self.uniform.iter().map(|uniform| uniform.group);
        // wgpu panics where there are many more.
        let most = limits.max_bind_groups;
        if let Some(group) = storage.chain(uniform).find(|&group| group >= most) {
            return Err(format!(
                "it uses group {group}, and this device has {most} groups, from 0 on; use those"
            ));
        }
        let most = limits.max_uniform_buffer_binding_size;
        match &self.uniform {
            Some(Uniform { name, bytes, .. }) if *bytes > most => Err(format!(
                "its uniform `{name}` has {bytes} bytes, and this device binds {most} at most; use a \
                 storage buffer"
            )),
            _ => Ok(()),
        }
    }

    /// The layouts of the groups that have bindings, by group.
    fn layouts(&self, device: &::wgpu::Device) -> Vec<(u32, BindGroupLayout)> {
        let entry = |binding, ty, bytes| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty: BindingType::Buffer {
                ty,
                has_dynamic_offset: false,
                min_binding_size: std::num::NonZeroU64::new(bytes),
            },
            count: None,
        };
        let storage = self.bindings.iter().map(|binding| {
            let ty = BufferBindingType::Storage {
                read_only: binding.read_only,
            };
            (
                binding.group,
                entry(binding.binding, ty, binding.shape.least),
            )
        });
        let uniform = self.uniform.iter().map(|uniform| {
            let ty = BufferBindingType::Uniform;
            (uniform.group, entry(uniform.binding, ty, uniform.bytes))
        });
        let mut groups = std::collections::BTreeMap::<u32, Vec<_>>::new();
        for (group, entry) in storage.chain(uniform) {
            groups.entry(group).or_default().push(entry);
        }
        let layout = |entries: Vec<_>| {
            device.create_bind_group_layout(&BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            })
        };
        groups
            .into_iter()
            .map(|(group, entries)| (group, layout(entries)))
            .collect()
    }
}

fn no_entry(module: &Module) -> String {
    let compute = |entry: &&EntryPoint| entry.stage == ShaderStage::Compute;
    let names: Vec<_> = module
        .entry_points
        .iter()
        .filter(compute)
        .map(|entry| format!("`{}`", entry.name))
        .collect();
    format!(
        "there is no compute entry point of that name; the source has {}",
        if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        }
    )
}

impl Shape {
    fn of(module: &Module, ty: &Type) -> Self {
        let size = |ty: &Type| u64::from(ty.inner.size(module.to_ctx()));
        match &ty.inner {
            TypeInner::Array {
                size: count,
                stride,
                ..
            } => {
                let stride = u64::from(*stride);
                let least = match count {
                    ArraySize::Constant(count) => u64::from(count.get()) * stride,
                    _ => stride,
                };
                Self {
                    least,
                    stride: Some(stride),
                }
            }
            // With an array at its end, room for one element of that.
            TypeInner::Struct { members, span } => match members.last() {
                Some(last) => {
                    let tail = Self::of(module, &module.types[last.ty]);
                    let least = u64::from(last.offset) + tail.least;
                    Self {
                        least: least.max(u64::from(*span)),
                        stride: None,
                    }
                }
                None => Self {
                    least: u64::from(*span),
                    stride: None,
                },
            },
            _ => Self {
                least: size(ty),
                stride: None,
            },
        }
    }
}
