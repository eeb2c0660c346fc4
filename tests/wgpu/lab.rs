//! The launches of the rules on wgpu, and the adapter that they run on.

use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use graph_capture::wgpu::{Commands, Kernel, Wgpu, wgpu};
use graph_capture::{Buffer, Error, read, read_write, write};

use crate::suite::{Lab, is_demanded};

/// Its buffers are all `read_write`, so that slices of one buffer can be bound as they are.
pub const KERNELS: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> by: f32;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] = x[id.x] + by; }
}

@compute @workgroup_size(64)
fn accumulate(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] += x[id.x]; }
}

@compute @workgroup_size(64)
fn touch(@builtin(global_invocation_id) id: vec3<u32>) {
    if arrayLength(&x) == 0u { y[0] = 0.0; }
}";

/// Like `add`, with an input that it can only read.
pub const ADD: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> by: f32;

@compute @workgroup_size(64)
fn add(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&y) { y[id.x] = x[id.x] + by; }
}";

/// The result of a future that is there at once, as those of wgpu are.
pub fn at_once<R>(future: impl Future<Output = R>) -> R {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("wgpu makes its devices at once"),
    }
}

fn adapter() -> Option<&'static wgpu::Adapter> {
    static ADAPTER: OnceLock<Option<wgpu::Adapter>> = OnceLock::new();
    let request = || {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        at_once(instance.request_adapter(&Default::default())).ok()
    };
    ADAPTER.get_or_init(request).as_ref()
}

/// A device and a queue of the program's own.
pub fn raw_device() -> (wgpu::Device, wgpu::Queue) {
    // With the limits that every device has: slices must then begin at multiples of 256 bytes, or be
    // met otherwise.
    raw_device_with(wgpu::Limits::default())
}

pub fn raw_device_with(required_limits: wgpu::Limits) -> (wgpu::Device, wgpu::Queue) {
    let adapter = adapter().expect("is_there was asked");
    let descriptor = wgpu::DeviceDescriptor {
        required_limits,
        ..Default::default()
    };
    at_once(adapter.request_device(&descriptor)).unwrap()
}

/// A device that checks all that wgpu checks and runs no shader: it is there on every machine.
pub fn noop() -> Wgpu {
    limited(wgpu::Limits::default())
}

/// The same, of these limits.
pub fn limited(required_limits: wgpu::Limits) -> Wgpu {
    let (device, queue) = wgpu::Device::noop(&wgpu::DeviceDescriptor {
        required_limits,
        ..Default::default()
    });
    Wgpu::adopt(device, queue)
}

impl Lab for Wgpu {
    fn is_there() -> bool {
        let there = adapter().is_some();
        if !there {
            assert!(
                !is_demanded("wgpu"),
                "no adapter of wgpu, and GRAPH_CAPTURE_REQUIRE demands one"
            );
            println!("skipped: wgpu has no adapter on this machine");
        }
        there
    }

    fn device() -> Self {
        let (device, queue) = raw_device();
        Self::adopt(device, queue)
    }

    #[track_caller]
    fn add(
        commands: &Commands,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        by: f32,
    ) -> Result<(), Error> {
        let add = Kernel::new(commands.device(), ADD, "add")?;
        commands.dispatch_with(&add, threads(&add, y), (read(x), write(y)), &by)
    }

    #[track_caller]
    fn accumulate(
        commands: &Commands,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
    ) -> Result<(), Error> {
        let accumulate = Kernel::new(commands.device(), KERNELS, "accumulate")?;
        let groups = threads(&accumulate, y);
        commands.dispatch(&accumulate, groups, (read(x), read_write(y)))
    }

    #[track_caller]
    fn touch(
        commands: &Commands,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        also_read: bool,
    ) -> Result<(), Error> {
        let touch = Kernel::new(commands.device(), KERNELS, "touch")?;
        if also_read {
            commands.dispatch(&touch, 1, (read(x), read_write(y)))
        } else {
            commands.dispatch(&touch, 1, (read(x), write(y)))
        }
    }
}

fn threads(kernel: &Kernel, y: &Buffer<f32, Wgpu>) -> u32 {
    kernel.cover(u32::try_from(y.len()).unwrap())
}
