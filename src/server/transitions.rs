//! The captures of callers: from `prepare` to their end.

use std::time::Duration;

use crate::backend::Backend;
use crate::commands::Commands;
use crate::error::Error;
use crate::graph::Graph;
use crate::server::pool::{Neighbours, StreamPool};
use crate::server::{CaptureEnd, GraphId};
use crate::stream_id::StreamId;

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
        let (slot, device) = self.lanes.at(caller);
        let prepared = slot.prepare(device, caller, limit, divert);
        self.note(prepared)
    }

    /// Starts another pass of the warm-up, which is then the one that counts (rule L15).
    ///
    /// # Errors
    /// [`Error::OutOfOrder`], [`Error::Neighbour`] (rule N2).
    pub fn again(&mut self, caller: StreamId) -> Result<(), Error> {
        self.expire();
        let (slot, _) = self.lanes.at(caller);
        let again = slot.again(caller);
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
        let (slot, _) = self.lanes.at(caller);
        let begun = slot.begin(caller);
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
        let (slot, _) = self.lanes.at(caller);
        let ended = slot.end(caller);
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
        let (slot, _) = self.lanes.at(caller);
        let aborted = slot.abort(caller)?;
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
        work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(GraphId, R), Error> {
        self.capture_with(caller, 1, work)
    }

    /// As [`capture`](Self::capture), with as many passes of the warm-up as told (rule L15).
    ///
    /// # Errors
    /// As [`capture`](Self::capture); [`Error::NoWarmUp`] for no passes.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn capture_with<R>(
        &mut self,
        caller: StreamId,
        passes: usize,
        mut work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(GraphId, R), Error> {
        let none = |_: &Commands<B>| Ok(());
        let (graph, (), result) = self.capture_graph(caller, passes, none, |c, ()| work(c))?;
        Ok((self.graphs.put(graph, caller), result))
    }

    /// As [`capture_with`](Self::capture_with), over what `inputs` makes before, for a graph that will not be
    /// the pool's.
    pub(super) fn capture_graph<I, R>(
        &mut self,
        caller: StreamId,
        passes: usize,
        inputs: impl FnOnce(&Commands<B>) -> Result<I, Error>,
        work: impl FnMut(&Commands<B>, &I) -> Result<R, Error>,
    ) -> Result<(Graph<B>, I, R), Error> {
        self.expire();
        let (slot, device) = self.lanes.at(caller);
        // Should a panic go through.
        self.counts.failed += 1;
        let captured = slot.capture(device, caller, passes, inputs, work);
        self.counts.failed -= 1;
        let captured = self.note_transition(captured)?;
        self.counts.sealed += 1;
        Ok(captured)
    }

    /// `caller` is gone: its capture is thrown away, with a report, and its graphs too, if the pool was
    /// told so (rule N13). Call it wherever a connection ends, such as in the `Drop` of what stands for it.
    ///
    /// # Errors
    /// What the wait for a replay of such a graph failed with, unless there is a report, which then tells it
    /// last. The graphs are gone all the same.
    pub fn disconnect(&mut self, caller: StreamId) -> Result<Option<CaptureEnd>, Error> {
        self.expire();
        let (slot, _) = self.lanes.at(caller);
        let ended = slot.disconnect(caller);
        self.counts.abandoned += u64::from(ended.is_some());
        let destroyed = match self.destroys_graphs {
            true => self.graphs.destroy_all_of(caller),
            false => Ok(()),
        };
        match (ended, destroyed) {
            (ended, Ok(())) => Ok(ended),
            (Some(ended), Err(error)) => Ok(Some(ended.and(error))),
            (None, Err(error)) => Err(error),
        }
    }

    /// The captures that outlasted their time limit since the last look, one a stream at most: for a log.
    ///
    /// There is no timer: call it when the thread of the device has nothing else to do, at
    /// [`next_expiry`](Self::next_expiry), or an abandoned window holds its stream, and the memory that
    /// waits to be freed, until somebody calls.
    pub fn take_expired(&mut self) -> Vec<CaptureEnd> {
        self.expire();
        let slots = self.lanes.slots.values_mut();
        slots.filter_map(|slot| slot.expired.take()).collect()
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
