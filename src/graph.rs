//! A sealed recording.

use std::fmt;
use std::panic::Location;

use crate::Host;
use crate::backend::Backend;
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::Held;
use crate::phase::MayWait;
use crate::stream::Stream;
use crate::window::{Contents, Kept, Kind, Trace};

/// A sealed recording: work to replay as often as wanted.
///
/// A graph owns all that it touches (rule M1): buffers and kernels may be dropped, and replay stays
/// correct. It keeps the memory, so the next input is written into the same buffer.
///
/// What the recording computed on the host is fixed: a number that a kernel captured stays what it
/// was at recording. Let values that change go through a buffer.
#[must_use = "a graph that is dropped never runs"]
pub struct Graph<B: Backend = Host> {
    // In the order in which it goes: first what runs, then what that uses.
    executable: B::Executable,
    _kept: Vec<Kept>,
    held: Vec<Held<B>>,
    commands: Trace,
    captures: DeviceCaptures<B>,
}

static_assertions::assert_impl_all!(Graph: Send);

/// What a graph keeps for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMemory {
    /// Buffers that it touches.
    pub buffers: usize,
    /// Their bytes, in the memory of the device. A buffer that two graphs touch counts in both.
    pub device_bytes: usize,
    /// Bytes of the host: what the recorded writes copied.
    pub host_bytes: usize,
}

impl<B: Backend> Graph<B> {
    pub(crate) fn new(
        executable: B::Executable,
        contents: Contents<B>,
        captures: DeviceCaptures<B>,
    ) -> Self {
        Self {
            executable,
            _kept: contents.kept,
            held: contents.held,
            commands: contents.commands,
            captures,
        }
    }

    /// Submits all of the graph to `stream`, as one piece of work, without waiting for the device
    /// (rule L16). Any stream of the device will do.
    ///
    /// In a warm-up a replay runs, but is no part of what the capture compares or records.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or the driver's refusal.
    ///
    /// # Panics
    /// On the host, where a kernel does.
    #[track_caller]
    pub fn replay<P>(&mut self, stream: &Stream<P, B>) -> Result<(), Error>
    where
        P: MayWait,
    {
        let at = Location::caller();
        if !self.captures.is_same_device(stream.captures()) {
            return Err(Error::OtherDevice {
                call: "replay",
                what: "graph",
                at,
            });
        }
        stream.wait(Kind::Replay, at, |t| B::replay(&mut self.executable, t))
    }

    /// The number of commands.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty recording does not seal"
    )]
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// What it keeps for itself (rule M7).
    #[must_use]
    pub fn memory(&self) -> GraphMemory {
        GraphMemory {
            buffers: self.held.len(),
            device_bytes: saturating_sum(self.held.iter().map(Held::bytes)),
            host_bytes: self.commands.written_bytes(),
        }
    }
}

/// Bytes of a graph may be more than an address: several devices have virtual memory.
pub(crate) fn saturating_sum(bytes: impl Iterator<Item = usize>) -> usize {
    bytes.fold(0, usize::saturating_add)
}

impl<B: Backend> fmt::Debug for Graph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("commands", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
