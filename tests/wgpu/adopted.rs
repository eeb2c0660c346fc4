//! Devices, buffers, pipelines and bind groups of the program's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wgpu::BufferUsages;

use super::*;

const ALL: BufferUsages = BufferUsages::STORAGE
    .union(BufferUsages::COPY_SRC)
    .union(BufferUsages::COPY_DST);

fn raw_buffer(device: &wgpu::Device, bytes: u64, usage: BufferUsages) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("the program's"),
        size: bytes,
        usage,
        mapped_at_creation: false,
    })
}

/// The program's own pipeline: `y[i] += x[i]`, with a bind group of two buffers.
struct Program {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    group: wgpu::BindGroup,
}

impl Program {
    fn new() -> Self {
        let (device, queue) = raw_device();
        let pipeline = pipeline(&device);
        let [x, y] = [(); 2].map(|()| raw_buffer(&device, 8, ALL));
        let group = group(&device, &pipeline, &x, &y);
        Self {
            device,
            queue,
            pipeline,
            x,
            y,
            group,
        }
    }

    /// Its own submission of that.
    fn accumulate(&self) {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(1, 1, 1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }
}

/// A pipeline of the program's own, whose shader needs a bind group.
pub fn pipeline(device: &wgpu::Device) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(KERNELS.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("accumulate"),
        compilation_options: Default::default(),
        cache: None,
    })
}

fn group(
    device: &wgpu::Device,
    pipeline: &wgpu::ComputePipeline,
    x: &wgpu::Buffer,
    y: &wgpu::Buffer,
) -> wgpu::BindGroup {
    fn entry(binding: u32, buffer: &wgpu::Buffer) -> wgpu::BindGroupEntry<'_> {
        let resource = buffer.as_entire_binding();
        wgpu::BindGroupEntry { binding, resource }
    }
    device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[entry(0, x), entry(1, y)],
    })
}

/// L13.
#[test]
fn a_device_that_is_adopted_twice_is_one() {
    let (device, queue) = wgpu::Device::noop(&Default::default());
    let first = Wgpu::adopt(device.clone(), queue.clone());
    let x = first.stream().unwrap().alloc::<f32>(4).unwrap();
    let second = Wgpu::adopt(device, queue);
    assert_eq!(second.memory().in_use, 16);
    let stream = second.stream().unwrap();
    stream.fill(&x, 0.0).unwrap();
    let prepared = first.stream().unwrap().prepare().unwrap();
    assert!(second.status().any_active());
    drop((first, prepared));
    assert_idle(second.status());
    let again = Wgpu::adopt(second.raw_device().clone(), second.raw_queue().clone());
    assert_eq!(again.memory(), second.memory());
}

/// M10: also where wgpu takes them for one, as it does across instances.
#[test]
fn devices_of_two_instances_are_two() {
    let raw = [(); 2].map(|()| wgpu::Device::noop(&Default::default()));
    assert_eq!(raw[0].0, raw[1].0, "wgpu tells them apart by now: simplify");
    let [first, second] = raw.map(|(device, queue)| Wgpu::adopt(device, queue));
    let x = first.stream().unwrap().alloc::<f32>(4).unwrap();
    assert_eq!(second.memory().in_use, 0);
    let refused = second.stream().unwrap().fill(&x, 0.0).unwrap_err();
    assert!(matches!(refused, Error::OtherDevice { .. }), "{refused:?}");
}

#[test]
fn a_buffer_that_does_not_fit_is_not_adopted() {
    let device = noop();
    let raw = |bytes| raw_buffer(device.raw_device(), bytes, ALL);
    let refused = Buffer::<[u8; 3], _>::adopt(&device, raw(8)).unwrap_err();
    for part in ["8 bytes", "the 3 of an element", "adopted.rs"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    let odd = Buffer::<u8, _>::adopt(&device, raw(5)).unwrap_err();
    assert!(odd.to_string().contains("multiple of four"), "{odd}");
    let none = Buffer::<[u8; 0], _>::adopt(&device, raw(8)).unwrap_err();
    assert!(matches!(none, Error::BadElement { .. }), "{none:?}");
    assert_eq!(device.memory().allocated, 0);
    assert_eq!(
        Buffer::<[u8; 4], _>::adopt(&device, raw(8)).unwrap().len(),
        2
    );
}

#[test]
fn a_command_that_an_adopted_buffer_was_not_made_for_is_refused_by_name() {
    let device = noop();
    let stream = device.stream().unwrap();
    let adopt = |usage| {
        Buffer::<f32, _>::adopt(&device, raw_buffer(device.raw_device(), 8, usage)).unwrap()
    };
    let (bound, copied) = (adopt(BufferUsages::STORAGE), adopt(BufferUsages::COPY_DST));
    let touch = Kernel::new(&device, KERNELS, "touch").unwrap();
    let plain = stream.alloc(2).unwrap();
    let raw = raw_buffer(device.raw_device(), 8, BufferUsages::COPY_SRC);
    let odd = Buffer::<u8, _>::adopt(&device, raw).unwrap();
    let (odd, bytes) = (odd.slice(1..5).unwrap(), stream.alloc::<u8>(4).unwrap());
    let refused = [
        (
            stream.copy(&odd, &bytes),
            "read a part of a word",
            "STORAGE",
        ),
        (stream.fill(&bound, 0.0), "fill", "COPY_DST"),
        (stream.write(&bound, &[1.0, 2.0]), "write", "COPY_DST"),
        (stream.copy(&copied, &plain), "copy", "COPY_SRC"),
        (stream.read(&copied).map(drop), "read", "COPY_SRC"),
        (
            stream.dispatch(&touch, 1, (read(&copied), write(&plain))),
            "launch",
            "STORAGE",
        ),
    ];
    for (result, call, usage) in refused {
        let Err(Error::BadMemory { .. } | Error::Marked { .. }) = &result else {
            panic!("{call}: {result:?}");
        };
        let told = told(&result.unwrap_err());
        for part in [call, usage, "adopted.rs"] {
            assert!(told.contains(part), "{part:?} is missing: {told}");
        }
    }
}

/// Its counts and its ways: in use, and then the program's again, never the pool's.
#[test]
fn an_adopted_buffer_is_never_lent_to_others() {
    let device = noop();
    let raw = raw_buffer(device.raw_device(), 64, ALL);
    let stream = device.stream().unwrap();
    let adopted = Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
    let again = Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
    assert_eq!(
        (device.memory().in_use, device.memory().allocated),
        (128, 64)
    );
    drop(again);
    stream.fill(&adopted, 0.0).unwrap();
    assert_eq!(device.memory().in_use, 64);
    drop(adopted);
    let stream = stream.prepare().unwrap();
    let scratch = stream.alloc::<f32>(16).unwrap();
    let stream = stream.abort();
    stream.write(&scratch, &[7.0; 16]).unwrap();
    stream.synchronize().unwrap();
    let now = device.memory();
    assert_eq!(
        (now.in_use, now.waiting, now.allocated),
        (64, 0, 64),
        "{now:?}"
    );
    let adopted = Buffer::<f32, _>::adopt(&device, raw).unwrap();
    assert_eq!(stream.read(&adopted).unwrap(), [0.0; 16]);
}

/// M5: also where it goes inside a window, and a trim comes by.
#[test]
fn an_adopted_buffer_that_goes_in_a_window_waits_for_its_end() {
    let device = noop();
    let stream = device.stream().unwrap();
    let adopted =
        Buffer::<f32, _>::adopt(&device, raw_buffer(device.raw_device(), 64, ALL)).unwrap();
    let x = stream.alloc::<f32>(1).unwrap();
    let stream = stream.prepare().unwrap();
    stream.fill(&x, 0.0).unwrap();
    let stream = stream.begin().unwrap();
    drop(adopted);
    assert_eq!(device.memory().waiting, 64);
    assert!(matches!(device.trim(), Err(Error::TrimWhileRecording)));
    assert_eq!((device.memory().waiting, device.memory().free), (64, 0));
    drop(stream);
    assert_eq!(device.memory().waiting, 0);
}

/// One buffer adopted twice is one memory.
#[test]
fn a_buffer_that_is_adopted_twice_is_the_same_memory() {
    let device = noop();
    let raw = raw_buffer(device.raw_device(), 8, ALL);
    let stream = device.stream().unwrap();
    let [x, y] = [(); 2].map(|()| Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap());
    let refused = stream.copy(&x, &y).unwrap_err();
    assert!(matches!(refused, Error::Aliased { .. }), "{refused:?}");
    assert!(
        stream.check(&y).is_err() && stream.check(&x).is_err(),
        "M11"
    );
}

#[test]
fn another_bind_group_diverges() {
    let device = noop();
    let raw = device.raw_device();
    let pipeline = pipeline(raw);
    let [x, y, z] = [(); 3].map(|()| raw_buffer(raw, 8, ALL));
    let groups = [group(raw, &pipeline, &x, &y), group(raw, &pipeline, &z, &y)];
    let y = Buffer::<f32, _>::adopt(&device, y).unwrap();
    let mut run = 0;
    let refused = device.stream().unwrap().capture(|c| {
        run += 1;
        c.dispatch_raw("sum", &pipeline, &[&groups[run - 1]], 1, read_write(&y))
    });
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused.error(), Error::Diverged { .. }),
        "{refused:?}"
    );
}

/// Our errors are ours: the handler of uncaught errors, and the program's own scopes, see none.
#[test]
fn the_programs_own_handlers_of_errors_see_none_of_ours() {
    let device = noop();
    let raw = device.raw_device();
    let uncaught = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&uncaught);
    raw.on_uncaptured_error(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let scope = raw.push_error_scope(wgpu::ErrorFilter::Validation);
    let y = Buffer::<f32, _>::adopt(&device, raw_buffer(raw, 8, ALL)).unwrap();
    let pipeline = pipeline(raw);
    let stream = device.stream().unwrap();
    let none: [&wgpu::BindGroup; 0] = [];
    let refused = stream.dispatch_raw("sum", &pipeline, &none, 1, read_write(&y));
    assert!(matches!(refused, Err(Error::Driver { .. })), "{refused:?}");
    assert!(lab::at_once(scope.pop()).is_none());
    assert_eq!(uncaught.load(Ordering::Relaxed), 0);
    raw_buffer(raw, 8, BufferUsages::empty());
    assert_eq!(
        uncaught.load(Ordering::Relaxed),
        1,
        "the program's own errors reach it"
    );
}

on_an_adapter! {
    /// Objects of the program's own, captured; and what it submits itself comes between, in order.
    fn a_raw_launch_is_captured_and_replayed_in_order_with_the_programs_own_work() {
        let program = Program::new();
        let device = Wgpu::adopt(program.device.clone(), program.queue.clone());
        let stream = device.stream().unwrap();
        let x = Buffer::<f32, _>::adopt(&device, program.x.clone()).unwrap();
        let y = Buffer::<f32, _>::adopt(&device, program.y.clone()).unwrap();
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                c.dispatch_raw("sum", &program.pipeline, &[&program.group], 1, (read(&x), read_write(&y)))
            })
            .unwrap();
        let node = graph.nodes().next().unwrap();
        assert_eq!(node.kind(), NodeKind::RawLaunch);
        assert_eq!(
            node.to_string(),
            "launch `sum` reads 0, reads and writes 1, and what it does not declare"
        );
        stream.write(&y, &[0.0, 0.0]).unwrap();
        let mut sum = 0.0;
        for round in 1..=5u8 {
            let round = f32::from(round);
            stream.write(&x, &[round, -round]).unwrap();
            graph.replay(&stream).unwrap();
            program.accumulate();
            program.queue.write_buffer(&program.x, 0, bytemuck::bytes_of(&[100.0f32, -100.0]));
            program.accumulate();
            graph.replay(&stream).unwrap();
            sum += 2.0 * round + 200.0;
        }
        assert_eq!(stream.read(&y).unwrap(), [sum, -sum]);
    }

    /// Dynamic offsets are part of a recorded launch.
    fn a_raw_launch_keeps_its_dynamic_offsets() {
        let (raw, queue) = raw_device();
        let layout = raw.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: None,
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: false },
                    has_dynamic_offset: true,
                    min_binding_size: None,
                },
                count: None,
            }],
        });
        let module = raw.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read_write> y: array<f32, 4>;
                 @compute @workgroup_size(1) fn main() { y[0] += 1.0; }".into(),
            ),
        });
        let pipeline = raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: Some(&raw.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            })),
            module: &module,
            entry_point: None,
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = raw_buffer(&raw, 512 + 16, ALL);
        let group = raw.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &buffer,
                    offset: 0,
                    size: std::num::NonZeroU64::new(16),
                }),
            }],
        });
        let device = Wgpu::adopt(raw, queue);
        let y = Buffer::<f32, _>::adopt(&device, buffer).unwrap();
        let stream = device.stream().unwrap();
        let (stream, mut graph, ()) = stream
            .capture(|c| {
                c.fill(&y, 0.0)?;
                for offset in [0u32, 512, 512] {
                    c.dispatch_raw("bump", &pipeline, &[(&group, &[offset][..])], 1, read_write(&y))?;
                }
                Ok(())
            })
            .unwrap();
        graph.replay(&stream).unwrap();
        let y = stream.read(&y).unwrap();
        assert_eq!((y[0], y[128]), (1.0, 2.0));
    }

    /// M1: the graph keeps what it uses, whoever drops it.
    fn a_graph_keeps_the_programs_objects() {
        let program = Program::new();
        let device = Wgpu::adopt(program.device.clone(), program.queue.clone());
        let stream = device.stream().unwrap();
        let (x, y) = {
            let adopt = |raw: &wgpu::Buffer| Buffer::<f32, _>::adopt(&device, raw.clone()).unwrap();
            (adopt(&program.x), adopt(&program.y))
        };
        let out = y.clone();
        let (stream, mut graph, ()) = stream
            .capture(move |c| {
                c.write(&x, &[1.0, 2.0])?;
                c.dispatch_raw("sum", &program.pipeline, &[&program.group], 1, (read(&x), read_write(&y)))
            })
            .unwrap();
        stream.fill(&out, 0.0).unwrap();
        graph.replay(&stream).unwrap();
        assert_eq!(stream.read(&out).unwrap(), [1.0, 2.0]);
    }
}
