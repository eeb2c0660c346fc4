//! Record GPU work once, replay it many times, with the order of the capture checked by the compiler.

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

mod access;
mod backend;
mod captures;
mod commands;
mod error;
mod graph;
pub mod host;
mod memory;
mod phase;
mod record;
mod stream;
mod stream_id;
mod sync;
mod window;

pub use access::{Access, Accesses, Mode, Read, ReadWrite, Write, read, read_write, write};
pub use backend::{Backend, Call, EndsAnywhere, OpenCalls, Transition};
pub use captures::DeviceCaptures;
pub use commands::Commands;
pub use error::{At, Error, TransitionError};
pub use graph::{Graph, GraphMemory};
pub use host::Host;
pub use memory::{Buffer, Held, Span};
pub use phase::{
    AnyThread, Is, MayWait, NoCapture, Phase, PhaseName, Prepared, Recording, UnderCapture,
};
pub use record::CaptureStatus;
pub use stream::Stream;
pub use stream_id::StreamId;
