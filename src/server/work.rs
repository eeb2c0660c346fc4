//! What callers have run, read and replayed.

use std::panic::Location;
use std::time::Duration;

use bytemuck::Pod;

use crate::backend::Backend;
use crate::commands::Commands;
use crate::completion::Completion;
use crate::download::Download;
use crate::error::{At, Error};
use crate::graph::Graph;
use crate::memory::Buffer;
use crate::phase::PhaseName;
use crate::server::GraphId;
use crate::server::lane::Lane;
use crate::server::pool::{StreamPool, lane, note};
use crate::stream_id::StreamId;

/// Work.
impl<B: Backend> StreamPool<B> {
    /// Issues commands for `caller`: they run, or are recorded in its own window.
    ///
    /// In another's window they run on a spare stream, or are refused. Refused, `work` is called all the
    /// same, with commands that run nothing and mark what they should have written, but answer `Ok`, so that
    /// it comes to its end and all is marked; the answer is the refusal, whatever it returns (rule N8).
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
        let submitted = self.lane("submit", caller).issue("submit", at, work);
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
        let lane = self.lane("write", caller);
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
        let lane = self.lane("read", caller);
        let read = lane.wait(|c| c.read_at(buffer, at));
        self.note(read)
    }

    /// As [`read`](Self::read), into memory of the caller's.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::LengthMismatch`] unless the lengths are equal.
    #[track_caller]
    pub fn read_into<T: Pod>(
        &mut self,
        caller: StreamId,
        buffer: &Buffer<T, B>,
        into: &mut [T],
    ) -> Result<(), Error> {
        let at = Location::caller();
        let lane = self.lane("read_into", caller);
        let read = lane.wait(|c| c.read_into_at(buffer, into, at));
        self.note(read)
    }

    /// The point behind all that was issued to the caller's stream: to serve others while it is on its
    /// way, and to read the result when it is done, without holding up the thread of the device.
    ///
    /// # Errors
    /// The driver's refusal, and as [`read`](Self::read).
    #[track_caller]
    pub fn completion(&mut self, caller: StreamId) -> Result<Completion<B>, Error> {
        let at = Location::caller();
        let marked = self.lane("completion", caller).completion(at);
        self.note(marked)
    }

    /// Waits until all is done that was issued to the caller's stream.
    ///
    /// # Errors
    /// As [`Stream::synchronize`](crate::Stream::synchronize), and as [`read`](Self::read).
    #[track_caller]
    pub fn synchronize(&mut self, caller: StreamId) -> Result<(), Error> {
        let at = Location::caller();
        let waited = self.lane("synchronize", caller).synchronize(at);
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
        let profiled = self.lane("profile", caller).profile(at, work);
        self.note(profiled)
    }
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
        let started = replay(lane, graph, at, |_| ());
        self.note_replay(started)
    }

    /// As [`replay`](Self::replay), for a graph that is not the pool's. Says when it is done, if the driver
    /// can tell.
    pub(super) fn replay_graph(
        &mut self,
        caller: StreamId,
        graph: &mut Graph<B>,
        at: At,
    ) -> Result<Option<Completion<B>>, Error> {
        let lane = self.lane("replay", caller);
        let started = replay(lane, graph, at, |c| c.completion_at(at).ok());
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
        let lane = lane(&mut self.lanes, &mut self.counts, "read", caller);
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
        let lane = self.lane("read", caller);
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
    lane: Lane<'_, B>,
    graph: &mut Graph<B>,
    at: At,
    then: impl FnOnce(&Commands<B>) -> R,
) -> Result<R, Error> {
    let started = lane.wait(|c| graph.replay_on(c, at).map(|()| then(c)));
    started.inspect_err(|error| {
        // Another device's pool has no say.
        if !matches!(error, Error::OtherDevice { .. }) {
            graph.refuse(at, error);
        }
    })
}
