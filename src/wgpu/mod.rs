//! Software graphs on any GPU that [`wgpu`] drives, and on the CPU where its driver is one.
//!
//! A recording resolves everything once: pipelines, bind groups, constants. A replay encodes one
//! command buffer from that, and submits it. Eager commands are submitted one by one, so that what a
//! call has issued comes before whatever the program then submits to the queue itself.
//!
//! ```no_run
//! use graph_capture::{Error, read, write};
//! use graph_capture::wgpu::{Kernel, Wgpu};
//!
//! const ADD: &str = "
//!     @group(0) @binding(0) var<storage, read> x: array<f32>;
//!     @group(0) @binding(1) var<storage, read_write> y: array<f32>;
//!     @group(0) @binding(2) var<uniform> by: f32;
//!     @compute @workgroup_size(64)
//!     fn add(@builtin(global_invocation_id) id: vec3<u32>) {
//!         if id.x < arrayLength(&y) { y[id.x] = x[id.x] + by; }
//!     }";
//!
//! let device = Wgpu::request()?;
//! let stream = device.stream()?;
//! let add = Kernel::new(&device, ADD, "add")?;
//! let (x, y) = (stream.upload(&[1.0f32, 2.0])?, stream.alloc::<f32>(2)?);
//! let (stream, mut graph, ()) = stream.capture(|commands| {
//!     commands.dispatch_with(&add, add.cover(2), (read(&x), write(&y)), &1.0f32)
//! })?;
//! stream.write(&x, &[10.0, 20.0])?;
//! graph.replay(&stream)?;
//! assert_eq!(stream.read(&y)?, [11.0, 21.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # With a device of your own
//!
//! [`Wgpu::adopt`] takes a device and a queue that the program has, `Buffer::adopt` its buffers, and
//! [`dispatch_raw`](Commands::dispatch_raw) its pipelines and bind groups. The types are those of the
//! crate `wgpu`, re-exported here as [`wgpu`]: its major version is part of this interface.
//!
//! # What `wgpu` does not notice
//!
//! It tells devices of one [`Instance`](::wgpu::Instance) apart, and not those of two: an adopted
//! buffer, pipeline or bind group of another instance may be taken for one of this. Memory and kernels
//! made here are told apart in any case (rule M10).
//!
//! A buffer that was destroyed is noticed when it is bound or submitted: where a recording copies it,
//! fills it or writes to it, that is at the replay, and not at `end`.
//!
//! A lost device is not reported by its calls. On devices that [`Wgpu::request`] makes it is noticed;
//! on an adopted one the callback for it is the program's, which can pass it on by
//! [`Wgpu::note_lost`].
//!
//! # What it costs
//!
//! Bytes are copied by the device in units of four, and a shader sees a slice only at a multiple of
//! [`min_storage_buffer_offset_alignment`](::wgpu::Limits::min_storage_buffer_offset_alignment). What
//! lies otherwise is met through memory of the backend's own, by copies around the command: as slow as
//! it sounds, and as right. The same goes for a buffer of which one launch reads a part and writes
//! another, and for one that holds the counts of a launch which binds it. Such memory, and the
//! constants of a graph, are not in the figures of [`Wgpu::memory`] and
//! [`Graph::memory`](crate::Graph::memory). The constants (what a recording writes, patterns, values of
//! uniforms) lie in one buffer, so [`max_buffer_size`](::wgpu::Limits::max_buffer_size) bounds them.

#[cfg(target_family = "wasm")]
compile_error!(
    "the feature `wgpu` of graph-capture is for native targets: it waits for the device"
);

mod bytes;
mod device;
mod kernel;
mod launch;
mod memory;
mod program;
mod recorded;
mod scope;
mod transitions;

pub use ::wgpu;

pub use device::{Driver, Wgpu};
pub use kernel::Kernel;
pub use launch::{Bound, Groups};
pub use memory::Memory;
pub use program::Program;
pub use recorded::Recorded;
pub use transitions::{Fetched, Point, Timeline};

/// The commands of a stream of wgpu.
pub type Commands = crate::commands::Commands<Wgpu>;
