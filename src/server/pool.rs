//! A pool of streams: every call of every caller, put onto a stream.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::time::{Duration, Instant};

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::error::Error;
use crate::graph::Graph;
use crate::memory::{Buffer, DeviceMemory};
use crate::phase::PhaseName;
use crate::record::CaptureStatus;
use crate::server::GraphId;
use crate::server::graphs::Graphs;
use crate::server::lane::{Lane, Way};
use crate::server::slot::Slot;
use crate::stream_id::StreamId;

/// What happens to the work of a caller while the window of another is open on its stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Neighbours {
    /// It is refused. What it should have written is marked (rules N5, N8): until it is written as a
    /// whole, reading it gives the refusal. So work that updates a buffer in place cannot simply be
    /// tried again; where state lives in buffers from call to call, divert, or ask
    /// [`StreamPool::phase`] and [`StreamPool::owner`] first.
    #[default]
    Refuse,
    /// It runs on a spare stream, in the order that it would have had: behind what was submitted
    /// before the window, on the same memory, and before what comes later (rules N5, N8). Captures are
    /// not diverted: `prepare`, `capture`, and what a [`GraphCache`](crate::server::GraphCache) does not
    /// have, are refused.
    Divert,
}

/// What a pool has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// Captures that sealed.
    pub sealed: u64,
    /// Captures that their owners took to the end, and that did not seal; at `begin` too.
    pub failed: u64,
    /// Captures thrown away by another caller, by a time limit, or by a disconnection.
    pub abandoned: u64,
    /// Replays that started.
    pub replays: u64,
    /// Calls refused since they were out of order, or another's capture was in the way.
    pub refused: u64,
    /// Calls of neighbours that ran on a spare stream.
    pub diverted: u64,
    /// Graphs that it holds now.
    pub graphs: usize,
}

/// Many callers on few streams: for the thread that owns a device in a server.
///
/// A caller with the id `n` is served by stream `n % streams` (rule N1). It captures as on a stream of
/// its own, and the order that the phases of [`Stream`](crate::Stream) give at compile time is kept here
/// at run time: a call out of order is refused with [`Error::OutOfOrder`], changes nothing and runs nothing.
/// While a capture holds a stream, the callers that share it are its *neighbours*: in the warm-up they
/// work as ever and are no part of it (N12); in the window they are refused or diverted, as the pool was
/// told ([`Neighbours`]), and they never enter the graph, nor doom it (N8, N9).
///
/// | call | no capture | own warm-up | own window | other's warm-up | other's window |
/// |---|---|---|---|---|---|
/// | `prepare`, `capture` | starts one | refused | refused | refused | refused |
/// | `again` | refused | another pass | refused | refused | refused |
/// | `begin` | refused | opens | refused | refused | refused |
/// | `end` | refused | refused | seals | refused | abandons |
/// | `abort` | nothing | gives up | gives up | abandons | abandons |
/// | `submit`, `write` | run | run, warm up | recorded | run | refused, or run aside |
/// | `read`, `replay`, `synchronize`, `completion`, `profile` | run | run | refused | run | refused, or run aside |
/// | `destroy` | runs | runs | refused | runs | runs |
/// | `status`, `phase`, `owner`, `check`, `memory`, `graph` | answered | answered | answered | answered | answered |
///
/// A closure or kernel that panics goes through the pool to whoever called it, and leaves the pool
/// usable, and marked what should have been written. A server that is to survive the panics of its jobs
/// runs each in `catch_unwind(AssertUnwindSafe(|| job(&mut pool)))`. A stream that a panic of the driver
/// takes is replaced, and what was under way on it is still waited for.
///
/// On a backend whose windows end on the thread that opened them, the pool stays on one thread.
pub struct StreamPool<B: Backend = Host> {
    pub(super) lanes: Lanes<B>,
    pub(super) graphs: Graphs<B>,
    pub(super) destroys_graphs: bool,
    pub(super) counts: PoolCounts,
}

static_assertions::assert_impl_all!(StreamPool: Send);

/// The streams, and who gets onto which.
pub(super) struct Lanes<B: Backend> {
    device: B,
    streams: u64,
    /// Those that somebody has used.
    pub(super) slots: BTreeMap<u64, Slot<B>>,
    pub(super) neighbours: Neighbours,
    pub(super) limit: Option<Duration>,
}

impl<B: Backend> Lanes<B> {
    /// The number of the stream that serves a caller (N1).
    fn place(&self, caller: StreamId) -> u64 {
        caller.parts().0.checked_rem(self.streams).unwrap_or(0)
    }

    fn slot(&self, caller: StreamId) -> Option<&Slot<B>> {
        self.slots.get(&self.place(caller))
    }

    /// The slot of a caller and the device.
    pub(super) fn at(&mut self, caller: StreamId) -> (&mut Slot<B>, &B) {
        let place = self.place(caller);
        let slot = self.slots.entry(place).or_insert_with(Slot::new);
        (slot, &self.device)
    }
}

impl<B: Backend> StreamPool<B> {
    /// A pool of `streams` streams of `device`, each opened when it is first needed; and where neighbours are
    /// diverted, a spare one for each on which somebody captures.
    ///
    /// # Errors
    /// [`Error::NoStreams`].
    pub fn new(device: B, streams: usize) -> Result<Self, Error> {
        if streams == 0 {
            return Err(Error::NoStreams);
        }
        Ok(Self {
            lanes: Lanes {
                device,
                streams: streams as u64,
                slots: BTreeMap::new(),
                neighbours: Neighbours::default(),
                limit: None,
            },
            graphs: Graphs::new(),
            destroys_graphs: false,
            counts: PoolCounts::default(),
        })
    }

    /// What becomes of the work of neighbours while a window is open.
    #[must_use]
    pub fn with_neighbours(mut self, neighbours: Neighbours) -> Self {
        self.lanes.neighbours = neighbours;
        self
    }

    /// How long a capture may last, from `prepare` on. The first call of anybody after that abandons it
    /// (rule N13), but for questions. What its owner still submits is then no part of it, and runs at
    /// once; the owner is told by its next `begin`, `end` or `abort` (rule N4). See
    /// [`take_expired`](Self::take_expired).
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.lanes.limit = Some(limit);
        self
    }

    /// The graphs of a caller go when it disconnects (rule N13).
    #[must_use]
    pub fn with_graphs_destroyed_on_disconnect(mut self) -> Self {
        self.destroys_graphs = true;
        self
    }
}

/// Questions, which are always answered (rule N5).
impl<B: Backend> StreamPool<B> {
    /// The device.
    #[must_use]
    pub fn device(&self) -> &B {
        &self.lanes.device
    }

    /// The published capture phases of all streams of the device. A clone may go to any thread.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        self.device().captures().status()
    }

    /// The phase of the stream that serves `caller`, whoever's capture it is.
    #[must_use]
    pub fn phase(&self, caller: StreamId) -> PhaseName {
        let slot = self.lanes.slot(caller);
        slot.map_or(PhaseName::Idle, Slot::phase)
    }

    /// Whose capture is on the stream that serves `caller`.
    #[must_use]
    pub fn owner(&self, caller: StreamId) -> Option<StreamId> {
        self.lanes.slot(caller).and_then(Slot::owner)
    }

    /// When the next capture will have outlasted its time limit.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Instant> {
        self.lanes.slots.values().filter_map(Slot::expires).min()
    }

    /// Whether the buffer holds what it should, without waiting or reading.
    ///
    /// # Errors
    /// As [`Stream::check`](crate::Stream::check).
    #[track_caller]
    pub fn check<T: Pod>(&self, buffer: &Buffer<T, B>) -> Result<(), Error> {
        let captures = self.device().captures();
        captures.check_at("check", buffer, Location::caller())
    }

    /// Where the memory of the device is (rule M7).
    #[must_use]
    pub fn memory(&self) -> DeviceMemory {
        self.device().captures().memory()
    }

    /// A graph, to look at.
    #[must_use]
    pub fn graph(&self, graph: GraphId) -> Option<&Graph<B>> {
        self.graphs.find(graph)
    }

    /// What the pool has done so far.
    #[must_use]
    pub fn counts(&self) -> PoolCounts {
        PoolCounts {
            graphs: self.graphs.len(),
            ..self.counts
        }
    }
}

/// How calls find their streams.
impl<B: Backend> StreamPool<B> {
    /// Throws away captures that have lasted too long (N13).
    pub(super) fn expire(&mut self) {
        for slot in self.lanes.slots.values_mut() {
            self.counts.abandoned += u64::from(slot.expire());
        }
    }

    /// Counts a call that a capture was in the way of.
    pub(super) fn note<R>(&mut self, called: Result<R, Error>) -> Result<R, Error> {
        note(&mut self.counts, called)
    }

    /// A stream for a call.
    pub(super) fn lane(&mut self, call: &'static str, caller: StreamId) -> Lane<'_, B> {
        self.expire();
        lane(&mut self.lanes, &mut self.counts, call, caller)
    }
}

pub(super) fn note<R>(counts: &mut PoolCounts, called: Result<R, Error>) -> Result<R, Error> {
    let refused =
        |error: &Error| matches!(error, Error::OutOfOrder { .. } | Error::Neighbour { .. });
    counts.refused += u64::from(called.as_ref().is_err_and(refused));
    called
}

/// As [`StreamPool::lane`], where its graphs are needed as well.
pub(super) fn lane<'s, B: Backend>(
    lanes: &'s mut Lanes<B>,
    counts: &mut PoolCounts,
    call: &'static str,
    caller: StreamId,
) -> Lane<'s, B> {
    let divert = lanes.neighbours == Neighbours::Divert;
    let (slot, device) = lanes.at(caller);
    let lane = slot.lane(device, divert, call, caller);
    counts.diverted += u64::from(matches!(lane.way, Way::Spare));
    lane
}

impl<B: Backend> fmt::Debug for StreamPool<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamPool")
            .field("streams", &self.lanes.streams)
            .field("neighbours", &self.lanes.neighbours)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
