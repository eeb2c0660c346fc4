//! Record GPU work once, replay it many times, with the order of the capture checked by the compiler.
//!
//! ```
//! use graph_capture::{Error, Host, read, write};
//!
//! let device = Host::new();
//! let stream = device.stream()?;
//! let (x, y) = (stream.upload(&[1.0, 2.0])?, stream.alloc::<f32>(2)?);
//!
//! // Runs the closure once for real, as the warm-up; then records it, and seals a graph.
//! let (stream, mut graph, ()) = stream.capture(|commands| {
//!     commands.launch("add_one", (read(&x), write(&y)), |(x, y)| {
//!         for (y, x) in y.iter_mut().zip(x) {
//!             *y = x + 1.0;
//!         }
//!     })
//! })?;
//!
//! stream.write(&x, &[10.0, 20.0])?; // the next input goes into the same buffer
//! graph.replay(&stream)?;
//! assert_eq!(stream.read(&y)?, [11.0, 21.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Capture in phases
//!
//! [`Stream::capture`] goes through the phases of a capture in one call. They can be taken one by
//! one as well: each transition takes the stream and gives back the next phase.
//!
//! ```
//! use graph_capture::{Buffer, Commands, Error, Host, read, write};
//!
//! // Written once: it runs, warms up and is recorded, for a stream in any phase takes commands.
//! fn step(commands: &Commands, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<(), Error> {
//!     commands.launch("add_one", (read(x), write(y)), |(x, y)| {
//!         for (y, x) in y.iter_mut().zip(x) {
//!             *y = x + 1.0;
//!         }
//!     })
//! }
//!
//! let device = Host::new();
//! let stream = device.stream()?; // Stream<NoCapture>
//! let (x, y) = (stream.upload(&[1.0, 2.0])?, stream.alloc::<f32>(2)?);
//!
//! let stream = stream.prepare()?; // Stream<Prepared>: the warm-up runs for real
//! step(&stream, &x, &y)?;
//! let stream = stream.begin()?; // Stream<Recording>: nothing runs, all is recorded
//! step(&stream, &x, &y)?;
//! let (stream, mut graph) = stream.end()?; // Stream<NoCapture>, and a Graph
//!
//! graph.replay(&stream)?;
//! # Ok::<(), Error>(())
//! ```
//!
//! # What the types say
//!
//! | type | what the compiler will say of it |
//! |---|---|
//! | [`Stream`]`<P, B>` | a call in the wrong phase names the phase it needs and the one the stream is in; a stream used after its transition has moved |
//! | [`Stream`]`<Recording, B>` | cannot wait, read or replay; cannot move to another thread unless `B` is [`EndsAnywhere`](backend::EndsAnywhere) |
//! | [`Commands`]`<B>` | borrowed from its stream, so it cannot be kept past a transition; not shared between threads |
//! | [`Graph`]`<B>` | replays through `&mut`, so never on two threads at once; only on streams of its backend |
//! | [`Buffer`]`<T, B>` | plain elements only; only in commands of its backend |
//! | [`TransitionError`] | gives the stream back; `?` turns it into [`Error`] |
//!
//! # What does not compile
//!
//! Every mistake that the compiler refuses has a page with the program, the compiler's answer, what
//! happens where nothing checks, and what to write instead: [misuse], in the groups
//! [order](misuse::order), [while recording](misuse::while_recording), [threads](misuse::threads),
//! [ownership](misuse::ownership), [launches](misuse::launches) and [sealed](misuse::sealed).
//!
//! # What is checked while it runs
//!
//! The recorded run must be the warm-up run, command by command; the first command that differs or
//! fails dooms the recording, and [`end`](Stream::end) names it with its place in the source. A
//! graph owns the memory it touches. Memory goes back to the driver only while no window of its
//! device is open. See [`Error`] for all that can be refused.
//!
//! # Words and rules
//!
//! The **warm-up** is the run between `prepare` and `begin`, for real; the **window** is the time
//! between `begin` and `end`, in which commands are recorded; the **owner** of a capture is the
//! [`StreamId`] that prepared it; a recording is **doomed** when something in it failed, and will not
//! seal; memory is **marked** when a command that should have written it failed. Rules are named by
//! number (L, M, N) and listed in [`rules`].
//!
//! # Other threads
//!
//! [`CaptureStatus`], from a stream or a device, tells any thread whether captures are active or
//! recording, and whose. [`StreamId`] names owners.
//!
//! # Servers
//!
//! [`server::StreamPool`] serves many callers on few streams, and keeps at run time the order that the types keep
//! here. [`server::GraphCache`] captures once a key, such as a batch size, and replays from then on.
//!
//! # Backends
//!
//! [`Host`] is always there and needs no GPU; it fails where it is told to, for tests of error paths
//! ([`Host::builder`]). `Wgpu` (feature `wgpu`, module `wgpu`) captures software graphs on any GPU that wgpu
//! drives, on native targets. `Cuda` (feature `cuda`, module `cuda`) captures with the driver's own graphs, through
//! `cudarc`. [`Backend`] is for drivers of your own.

#![deny(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

pub mod access;
pub mod backend;
mod captures;
mod commands;
mod completion;
#[cfg(feature = "cuda")]
pub mod cuda;
mod download;
mod error;
mod graph;
pub mod host;
mod issue;
mod lost;
mod memory;
mod order;
mod phase;
mod record;
mod refused;
pub mod server;
mod stream;
mod stream_id;
mod sync;
mod trace;
mod transition_error;
mod waits;
#[cfg(feature = "wgpu")]
pub mod wgpu;
mod window;

pub use access::{read, read_write, write};
pub use backend::Backend;
pub use commands::Commands;
pub use completion::Completion;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use download::Download;
pub use error::{At, Error};
pub use graph::{Graph, GraphMemory};
pub use host::Host;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub use memory::Adopt;
pub use memory::{Buffer, DeviceMemory, Element};
pub use phase::{
    AnyThread, Is, MayWait, NoCapture, Phase, PhaseName, Prepared, Recording, UnderCapture,
};
pub use record::CaptureStatus;
pub use stream::Stream;
pub use stream_id::StreamId;
pub use trace::{Node, NodeAccess, NodeKind};
pub use transition_error::TransitionError;
#[cfg(feature = "wgpu")]
pub use wgpu::Wgpu;

/// The rules that the documentation names by number, and how the crate is built.
#[cfg(doc)]
#[doc = include_str!("../ARCHITECTURE.md")]
pub mod rules {}

// Not for doctests: `tests/ui.rs` compiles and runs what it shows.
#[cfg(all(doc, not(doctest)))]
pub mod misuse;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
