//! Bounds that never hold, so that the compiler refuses in our words what it would refuse in its own.
#![allow(unsafe_code)] // An impl of `Sync` that never applies.

use crate::backend::Backend;
use crate::commands::Commands;
use crate::error::Error;
use crate::graph::Graph;
use crate::memory::Buffer;
use crate::phase::Phase;
use crate::stream::Stream;

/// Commands are not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared between threads: a stream is used by one thread at a time",
    label = "would be used by two threads",
    note = "give each thread a stream of its own, or move this one; two threads in one window would have no order"
)]
pub trait UsedByManyThreads {}

// SAFETY: the bound never holds, so this never applies. Commands hold a `RefCell`, and would not be
// `Sync` without it either; the compiler would then speak of that.
unsafe impl<B: Backend> Sync for Commands<B> where Self: UsedByManyThreads {}

// SAFETY: as above. Without it the answer would walk through the insides of a stream.
unsafe impl<P: Phase, B: Backend> Sync for Stream<P, B> where Self: UsedByManyThreads {}

/// Graphs are not.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be shared between threads: one thread at a time replays a graph and reads its results",
    label = "would be used by two threads",
    note = "move the graph to the thread that uses it, or let one thread read and share the elements"
)]
pub trait ReplayedByManyThreads {}

// SAFETY: the bound never holds, so this never applies. A graph holds an executable that need not be
// `Sync`, and what was read of it in cells.
unsafe impl<B: Backend> Sync for Graph<B> where Self: ReplayedByManyThreads {}

/// Commands do not: streams do, in the phases in which they may.
#[diagnostic::on_unimplemented(
    message = "commands cannot wait for the device: `read` and `synchronize` are calls of the stream",
    label = "not among the commands that a capture can record",
    note = "wait on the stream, before the capture or after it; to get results out of a graph, record a `download`"
)]
pub trait Waits {
    fn refuse<R>(&self) -> R;
}

/// What people look for on commands. Streams have calls of the same names, which are found first.
#[doc(hidden)]
impl<B: Backend> Commands<B> {
    #[expect(missing_docs, reason = "it cannot be called")]
    pub fn read<T>(&self, _: &Buffer<T, B>) -> Result<Vec<T>, Error>
    where
        Self: Waits,
    {
        self.refuse()
    }

    #[expect(missing_docs, reason = "it cannot be called")]
    pub fn synchronize(&self) -> Result<(), Error>
    where
        Self: Waits,
    {
        self.refuse()
    }
}
