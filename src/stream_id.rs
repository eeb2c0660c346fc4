//! Names of logical streams.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of a logical stream: whose work it is.
///
/// A capture is owned by the id that prepared it, and keeps that owner wherever the stream moves.
/// Two kinds of ids exist, in namespaces of their own, so that one is never mistaken for the other:
///
/// * [`StreamId::new`]: a number that the program chose. Servers and async code use these, because
///   there a task changes its thread between two polls.
/// * [`StreamId::current`]: the id of the calling thread. Good for programs with a thread a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(Namespace);

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Namespace {
    Given(u64),
    Thread(u64),
}

impl StreamId {
    /// The id with the given number. Equal numbers are equal ids, on every thread.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(Namespace::Given(id))
    }

    /// The id of the calling thread: one per thread, and never reused when a thread ends.
    #[must_use]
    pub fn current() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            // No destructor, so it can be asked for while a thread is torn down.
            static MINE: Cell<u64> = const { Cell::new(0) };
        }
        MINE.with(|mine| {
            if mine.get() == 0 {
                mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            Self(Namespace::Thread(mine.get()))
        })
    }

    /// The number, and whether it is a thread's.
    pub(crate) const fn parts(self) -> (u64, bool) {
        match self.0 {
            Namespace::Given(id) => (id, false),
            Namespace::Thread(id) => (id, true),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (id, false) => write!(f, "stream {id}"),
            (id, true) => write!(f, "thread {id}"),
        }
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (id, false) => write!(f, "StreamId({id})"),
            (id, true) => write!(f, "StreamId(thread {id})"),
        }
    }
}
