//! A pool of streams: every call of every caller, put onto a stream.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::commands::Commands;
use crate::completion::Completion;
use crate::download::Download;
use crate::error::{At, Error};
use crate::graph::Graph;
use crate::memory::{Buffer, DeviceMemory};
use crate::phase::PhaseName;
use crate::record::CaptureStatus;
use crate::server::graphs::Graphs;
use crate::server::lane::{Lane, Way};
use crate::server::slot::Slot;
use crate::server::{CaptureEnd, GraphId};
use crate::stream_id::StreamId;

/// What happens to the work of a caller while the window of another is open on its stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Neighbours {
    /// It is refused. What it should have written is marked (rules N5, N8).
    #[default]
    Refuse,
    /// It runs on a spare stream, in the order that it would have had: behind what was submitted
    /// before the window, on the same memory, and before what comes later (rules N5, N8).
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
    /// Calls refused since a capture was in the way.
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
/// | `read`, `replay`, `synchronize`, `profile` | run | run | refused | run | refused, or run aside |
/// | `destroy` | runs | runs | refused | runs | runs |
/// | `status`, `phase`, `owner`, `check`, `memory`, `graph` | answered | answered | answered | answered | answered |
///
/// A closure or kernel that panics goes through the pool to whoever called it, and leaves the pool as
/// usable as before.
///
/// On a backend whose windows end on the thread that opened them, the pool stays on one thread.
pub struct StreamPool<B: Backend = Host> {
    lanes: Lanes<B>,
    graphs: Graphs<B>,
    destroys_graphs: bool,
    counts: PoolCounts,
}

static_assertions::assert_impl_all!(StreamPool: Send);

/// The streams, and who gets onto which.
struct Lanes<B: Backend> {
    device: B,
    slots: Vec<Slot<B>>,
    neighbours: Neighbours,
    limit: Option<Duration>,
}

impl<B: Backend> Lanes<B> {
    /// The slot of a caller. There is at least one (N1).
    fn slot(&self, caller: StreamId) -> Option<&Slot<B>> {
        self.slots.get(self.place(caller))
    }

    fn place(&self, caller: StreamId) -> usize {
        let streams = self.slots.len().max(1) as u64;
        // Less than a length, so it fits.
        (caller.parts().0 % streams) as usize
    }

    /// The slot of a caller and the device.
    ///
    /// # Errors
    /// [`Error::NoStreams`], which [`StreamPool::new`] has ruled out.
    fn at(&mut self, caller: StreamId) -> Result<(&mut Slot<B>, &B), Error> {
        let place = self.place(caller);
        let slot = self.slots.get_mut(place).ok_or(Error::NoStreams)?;
        Ok((slot, &self.device))
    }
}

impl<B: Backend> StreamPool<B> {
    /// A pool of `streams` streams of `device`, each opened when it is first needed.
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
                slots: (0..streams).map(|_| Slot::new()).collect(),
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
    /// (rule N13).
    #[must_use]
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.lanes.limit = Some(limit);
        self
    }

    /// The graphs of a caller go when it disconnects (rule N13).
    #[must_use]
    pub fn destroying_graphs_on_disconnect(mut self) -> Self {
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

/// Captures.
impl<B: Backend> StreamPool<B> {
    /// Starts a capture that `caller` owns: what it submits from here to [`begin`](Self::begin) is the warm-up.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] or [`Error::Neighbour`] if a capture holds the stream already; the driver's
    /// refusal. Nothing has changed then.
    pub fn prepare(&mut self, caller: StreamId) -> Result<(), Error> {
        self.prepare_at_most(caller, self.lanes.limit)
    }

    /// As [`prepare`](Self::prepare), with a time limit of its own in place of the pool's: `None` for none.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_at_most(
        &mut self,
        caller: StreamId,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        self.expire();
        let divert = self.lanes.neighbours == Neighbours::Divert;
        let (slot, device) = self.lanes.at(caller)?;
        let prepared = slot.prepare(device, caller, limit, divert);
        self.note_transition(prepared)
    }

    /// Starts another pass of the warm-up, which is then the one that counts (rule L15).
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::Neighbour`] (rule N2).
    pub fn again(&mut self, caller: StreamId) -> Result<(), Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller)?;
        let again = slot.again(device, caller);
        self.note(again)
    }

    /// Opens the window of `caller`'s capture.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::Neighbour`] (rule N2), and nothing has changed. The reason why an
    /// earlier capture of the caller was thrown away, once (rule N4); nothing has changed.
    /// [`Error::NoWarmUp`], [`Error::WarmUpFailed`], or the driver's refusal: that capture has ended.
    pub fn begin(&mut self, caller: StreamId) -> Result<(), Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller)?;
        let begun = slot.begin(device, caller);
        self.note_transition(begun)
    }

    /// Closes the window: the caller's own, and seals its graph; or another's, which is thrown away, since
    /// a window whose owner never comes back must not hold the stream for ever (rule N3).
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::Neighbour`] if no window is open (rule N2). The reason why an earlier
    /// capture of the caller was thrown away, once (rule N4); nothing has changed. What doomed the recording,
    /// or the driver's refusal: the capture has ended.
    pub fn end(&mut self, caller: StreamId) -> Result<CaptureEnd, Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller)?;
        let ended = slot.end(device, caller);
        Ok(match self.note_transition(ended)? {
            Ok(graph) => {
                self.counts.sealed += 1;
                let graph = self.graphs.put(graph, caller);
                CaptureEnd::Owned {
                    owner: caller,
                    graph,
                }
            }
            Err(abandoned) => {
                self.counts.abandoned += 1;
                abandoned
            }
        })
    }

    /// Gives up the capture on the caller's stream: `None` if it was its own, or none was under way; what
    /// became of it if it was another's (rule N3).
    ///
    /// # Errors
    /// The reason why an earlier capture of the caller was thrown away, once (rule N4); nothing has changed.
    pub fn abort(&mut self, caller: StreamId) -> Result<Option<CaptureEnd>, Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller)?;
        let aborted = slot.abort(device, caller)?;
        self.counts.abandoned += u64::from(aborted.is_some());
        Ok(aborted)
    }

    /// Records `work` and seals it, in one call, as [`Stream::capture`](crate::Stream::capture).
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::Neighbour`] if a capture holds the stream; as
    /// [`Stream::capture`](crate::Stream::capture).
    ///
    /// # Panics
    /// Where `work` does. The capture has then ended.
    pub fn capture<R>(
        &mut self,
        caller: StreamId,
        mut work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(GraphId, R), Error> {
        let (graph, (), result) = self.capture_graph(caller, |_| Ok(()), |c, ()| work(c))?;
        Ok((self.graphs.put(graph, caller), result))
    }

    /// As [`capture`](Self::capture), over what `inputs` makes before, for a graph that will not be the pool's.
    pub(super) fn capture_graph<I, R>(
        &mut self,
        caller: StreamId,
        inputs: impl FnOnce(&Commands<B>) -> Result<I, Error>,
        work: impl FnMut(&Commands<B>, &I) -> Result<R, Error>,
    ) -> Result<(Graph<B>, I, R), Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller)?;
        let captured = slot.capture(device, caller, inputs, work);
        let captured = self.note_transition(captured)?;
        self.counts.sealed += 1;
        Ok(captured)
    }

    /// `caller` is gone: its capture is thrown away, with a report, and its graphs too, if the pool was
    /// told so (rule N13).
    ///
    /// # Errors
    /// What the wait for a replay of such a graph failed with. The graphs are gone all the same.
    pub fn disconnect(&mut self, caller: StreamId) -> Result<Option<CaptureEnd>, Error> {
        self.expire();
        let (slot, _) = self.lanes.at(caller)?;
        let ended = slot.disconnect(caller);
        self.counts.abandoned += u64::from(ended.is_some());
        if self.destroys_graphs {
            self.graphs.destroy_all_of(caller)?;
        }
        Ok(ended)
    }

    /// The captures that outlasted their time limit since the last look, one a stream at most: for a log.
    pub fn take_expired(&mut self) -> Vec<CaptureEnd> {
        self.expire();
        let slots = self.lanes.slots.iter_mut();
        slots.filter_map(|slot| slot.expired.take()).collect()
    }

    /// Throws away captures that have lasted too long (N13).
    fn expire(&mut self) {
        for slot in &mut self.lanes.slots {
            self.counts.abandoned += u64::from(slot.expire());
        }
    }

    /// Counts a call that a capture was in the way of.
    fn note<R>(&mut self, called: Result<R, Error>) -> Result<R, Error> {
        note(&mut self.counts, called)
    }

    /// Counts a transition, after which a capture that was refused has failed.
    fn note_transition<R>(&mut self, called: Result<R, Error>) -> Result<R, Error> {
        self.note(called).inspect_err(|error| match error {
            Error::OutOfOrder { .. } | Error::Neighbour { .. } => {}
            // Told of an earlier one, which has been counted.
            Error::Abandoned { .. } | Error::Expired { .. } => {}
            _ => self.counts.failed += 1,
        })
    }
}

/// Work.
impl<B: Backend> StreamPool<B> {
    /// Issues commands for `caller`: they run, or are recorded in its own window.
    ///
    /// In another's window they run on a spare stream, or are refused: then `work` gets commands
    /// that refuse and mark what they should have written, and whatever it returns, the answer is the
    /// refusal (rule N8).
    ///
    /// An error that `work` returns, or a panic, fails the caller's warm-up or dooms its window (rule N6),
    /// also where each command went well.
    ///
    /// # Errors
    /// What `work` returns; [`Error::Neighbour`].
    ///
    /// # Panics
    /// Where `work` does.
    #[track_caller]
    pub fn submit<R>(
        &mut self,
        caller: StreamId,
        work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let at = Location::caller();
        let submitted = self.lane("submit", caller)?.issue("submit", at, work);
        self.note(submitted)
    }

    /// Copies `data` into `buffer`, as [`Commands::write`].
    ///
    /// # Errors
    /// As [`Commands::write`]; [`Error::Neighbour`], and the buffer is marked (rule N5).
    #[track_caller]
    pub fn write<T: Pod>(
        &mut self,
        caller: StreamId,
        buffer: &Buffer<T, B>,
        data: &[T],
    ) -> Result<(), Error> {
        let at = Location::caller();
        let lane = self.lane("write", caller)?;
        let written = lane.issue("write", at, |c| c.write_at(buffer, data, at));
        self.note(written)
    }

    /// Waits, and copies the buffer to the host.
    ///
    /// # Errors
    /// As [`Stream::read`](crate::Stream::read); [`Error::OutOfOrder`] in the caller's own window,
    /// [`Error::Neighbour`] in another's.
    #[track_caller]
    pub fn read<T: Pod>(
        &mut self,
        caller: StreamId,
        buffer: &Buffer<T, B>,
    ) -> Result<Vec<T>, Error> {
        let at = Location::caller();
        let lane = self.lane("read", caller)?;
        let read = lane.wait(|c| c.read_at(buffer, at));
        self.note(read)
    }

    /// Waits until all is done that was issued to the caller's stream.
    ///
    /// # Errors
    /// As [`Stream::synchronize`](crate::Stream::synchronize), and as [`read`](Self::read).
    #[track_caller]
    pub fn synchronize(&mut self, caller: StreamId) -> Result<(), Error> {
        let at = Location::caller();
        let waited = self.lane("synchronize", caller)?.synchronize(at);
        self.note(waited)
    }

    /// How long the device takes for `work`, as [`Stream::profile`](crate::Stream::profile).
    ///
    /// # Errors
    /// What `work` returns, and as [`read`](Self::read): then nothing of `work` has run.
    ///
    /// # Panics
    /// Where `work` does.
    #[track_caller]
    pub fn profile<R>(
        &mut self,
        caller: StreamId,
        work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(R, Duration), Error> {
        let at = Location::caller();
        let profiled = self.lane("profile", caller)?.profile(at, work);
        self.note(profiled)
    }

    /// A stream for a call.
    fn lane(&mut self, call: &'static str, caller: StreamId) -> Result<Lane<'_, B>, Error> {
        self.expire();
        lane(&mut self.lanes, &mut self.counts, call, caller)
    }
}

fn note<R>(counts: &mut PoolCounts, called: Result<R, Error>) -> Result<R, Error> {
    let refused =
        |error: &Error| matches!(error, Error::OutOfOrder { .. } | Error::Neighbour { .. });
    counts.refused += u64::from(called.as_ref().is_err_and(refused));
    called
}

/// As [`StreamPool::lane`], where its graphs are needed as well.
fn lane<'s, B: Backend>(
    lanes: &'s mut Lanes<B>,
    counts: &mut PoolCounts,
    call: &'static str,
    caller: StreamId,
) -> Result<Lane<'s, B>, Error> {
    let (slot, device) = lanes.at(caller)?;
    let lane = slot.lane(device, call, caller)?;
    counts.diverted += u64::from(matches!(lane.way, Way::Spare));
    Ok(lane)
}

/// Graphs.
impl<B: Backend> StreamPool<B> {
    /// Submits a graph, whoever captured it, to the caller's stream.
    ///
    /// # Errors
    /// [`Error::UnknownGraph`] (rule N11); as [`Graph::replay`]; and as [`read`](Self::read). What the replay
    /// should have written is then marked (rule N10).
    ///
    /// # Panics
    /// On the host, where a kernel does.
    #[track_caller]
    pub fn replay(&mut self, caller: StreamId, graph: GraphId) -> Result<(), Error> {
        let at = Location::caller();
        self.expire();
        let graph = self.graphs.named("replay", graph)?;
        let lane = lane(&mut self.lanes, &mut self.counts, "replay", caller);
        let started = replay(lane, graph, at, |_| Ok(()));
        self.note_replay(started)
    }

    /// As [`replay`](Self::replay), for a graph that is not the pool's. Says when it is done.
    pub(super) fn replay_graph(
        &mut self,
        caller: StreamId,
        graph: &mut Graph<B>,
        at: At,
    ) -> Result<Completion<B>, Error> {
        let lane = self.lane("replay", caller);
        let started = replay(lane, graph, at, |c| c.completion_at(at));
        self.note_replay(started)
    }

    fn note_replay<R>(&mut self, started: Result<R, Error>) -> Result<R, Error> {
        self.counts.replays += u64::from(started.is_ok());
        self.note(started)
    }

    /// What the last replay of a graph left in a download, waiting for it.
    ///
    /// # Errors
    /// [`Error::UnknownGraph`]; as [`Graph::read`]; and as [`read`](Self::read).
    #[track_caller]
    pub fn read_download<T: Pod>(
        &mut self,
        caller: StreamId,
        graph: GraphId,
        download: &Download<T>,
    ) -> Result<&[T], Error> {
        let at = Location::caller();
        self.expire();
        let graph = self.graphs.named("read", graph)?;
        let lane = lane(&mut self.lanes, &mut self.counts, "read", caller)?;
        let read = lane.wait(|c| graph.read_on(download, c, at));
        note(&mut self.counts, read)
    }

    /// As [`read_download`](Self::read_download), for a graph that is not the pool's.
    pub(super) fn read_graph<'g, T: Pod>(
        &mut self,
        caller: StreamId,
        graph: &'g Graph<B>,
        download: &Download<T>,
        at: At,
    ) -> Result<&'g [T], Error> {
        let lane = self.lane("read", caller)?;
        let read = lane.wait(|c| graph.read_on(download, c, at));
        self.note(read)
    }

    /// Drops a graph of the caller's, when its replays are done. A graph that is not there, or no more, is
    /// no error (rule N11).
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] in the caller's own window (rule N6); [`Error::NotYourGraph`]; what the wait
    /// failed with: the graph is then gone all the same.
    pub fn destroy(&mut self, caller: StreamId, graph: GraphId) -> Result<(), Error> {
        self.expire();
        if self.owner(caller) == Some(caller) && self.phase(caller) == PhaseName::Window {
            return self.note(Err(Error::OutOfOrder {
                call: "destroy",
                caller,
                owner: Some(caller),
                phase: PhaseName::Window,
            }));
        }
        self.graphs.destroy(caller, graph)
    }

    /// Gives the device's free memory back to the driver.
    ///
    /// # Errors
    /// [`Error::TrimWhileRecording`] while any stream of the device records (rule M7).
    pub fn trim(&mut self) -> Result<(), Error> {
        self.expire();
        self.device().captures().trim()
    }
}

/// Replays on a lane. A replay that was refused marks what it should have written (N10).
fn replay<B: Backend, R>(
    lane: Result<Lane<'_, B>, Error>,
    graph: &mut Graph<B>,
    at: At,
    then: impl FnOnce(&Commands<B>) -> Result<R, Error>,
) -> Result<R, Error> {
    let started = lane.and_then(|lane| {
        lane.wait(|c| {
            graph.replay_on(c, at)?;
            then(c)
        })
    });
    started.inspect_err(|error| graph.refuse(at, error))
}

impl<B: Backend> fmt::Debug for StreamPool<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamPool")
            .field("streams", &self.lanes.slots.len())
            .field("neighbours", &self.lanes.neighbours)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
