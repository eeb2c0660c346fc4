//! A sealed recording.
#![allow(unsafe_code)] // `ManuallyDrop::take`, to hand over what a dropped graph leaves.

use std::cell::OnceCell;
use std::fmt::{self, Write as _};
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::captures::{Departed, DeviceCaptures};
use crate::commands::Commands;
use crate::download::Download;
use crate::error::{At, Error};
use crate::issue::{noting, noting_panics};
use crate::memory::{Cause, Handle, Span, covered_bytes};
use crate::order::{Place, Repeat};
use crate::phase::MayWait;
use crate::stream::Stream;
use crate::trace::{Node, Trace, saturating_sum};
use crate::window::{Contents, Kept, Touched};

/// A sealed recording: work to replay as often as wanted.
///
/// A graph owns all that it touches (rule M1): buffers and kernels may be dropped, and replay stays
/// correct. It keeps the memory, so the next input is written into the same buffer. It may be
/// dropped while a replay is in flight (rule M8).
///
/// What the recording computed on the host is fixed: a number that a kernel captured stays what it
/// was at recording. Let values that change go through a buffer.
///
/// What it owns is [out of reach](crate::misuse::sealed::graph_taken_apart), so that it cannot go before
/// the graph does.
#[must_use = "a graph that is dropped never runs"]
pub struct Graph<B: Backend = Host> {
    parts: ManuallyDrop<Parts<B>>,
    commands: Trace,
    downloads: Vec<Landing<B>>,
    captures: DeviceCaptures<B>,
    /// The last replay on each stream.
    flights: Vec<Place<B>>,
    repeat: Repeat<B>,
}

static_assertions::assert_impl_all!(Graph: Send);

/// What runs, and what that uses, in the order in which it goes.
struct Parts<B: Backend> {
    executable: B::Executable,
    _kept: Vec<Kept>,
    touched: Vec<Touched<B>>,
}

/// A download: where a replay leaves it, and what the host has read of it since.
struct Landing<B: Backend> {
    handle: Arc<Handle<B>>,
    /// Words of 16 bytes, for any element.
    read: OnceCell<Vec<u128>>,
}

impl<B: Backend> Landing<B> {
    /// Whether a replay has left something there.
    fn check(&self) -> Result<(), Error> {
        match self.handle.block().mark.check() {
            Err(Error::Marked { first, .. }) if matches!(*first, Error::NotReplayed) => {
                Err(Error::NotReplayed)
            }
            checked => checked,
        }
    }
}

/// What a graph keeps for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphMemory {
    /// Buffers that it touches. Scratch that had the same bytes of the device one after the other is
    /// one.
    pub buffers: usize,
    /// Their bytes, in the memory of the device: each once, however many buffers had it in turn. A
    /// buffer that two graphs touch counts in both.
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
        let landing = |handle| Landing {
            handle,
            read: OnceCell::new(),
        };
        Self {
            parts: ManuallyDrop::new(Parts {
                executable,
                _kept: contents.kept,
                touched: contents.touched,
            }),
            commands: contents.commands,
            downloads: contents.downloads.into_iter().map(landing).collect(),
            captures,
            flights: Vec::new(),
            repeat: Repeat::new(),
        }
    }

    /// Submits all of the graph to `stream`, as one piece of work, without waiting for the device
    /// (rule L16). Any stream of the device will do; the work comes after what was submitted before
    /// on the same memory, on whichever stream (rule M9).
    ///
    /// In a warm-up a replay runs, but is no part of what the capture compares or records.
    ///
    /// Replay outside windows, on one thread at a time, on a stream of the graph's backend, when nobody
    /// looks at the last result. If you don't:
    /// [`replay_while_recording`](crate::misuse::while_recording::replay_while_recording),
    /// [`replay_inside_capture`](crate::misuse::while_recording::replay_inside_capture),
    /// [`graph_replayed_by_two_threads`](crate::misuse::threads::graph_replayed_by_two_threads),
    /// [`graph_of_another_backend`](crate::misuse::launches::graph_of_another_backend),
    /// [`replay_while_result_is_read`](crate::misuse::ownership::replay_while_result_is_read).
    ///
    /// # Errors
    /// [`Error::OtherDevice`]; [`Error::Marked`] if a command that should have written the graph's
    /// input failed; or the driver's refusal. What the replay should have written is then marked,
    /// until it is written (rule M11).
    ///
    /// # Panics
    /// On the host, where a kernel does.
    #[track_caller]
    pub fn replay<P>(&mut self, stream: &Stream<P, B>) -> Result<(), Error>
    where
        P: MayWait,
    {
        self.replay_on(stream, Location::caller())
    }

    /// As [`replay`](Self::replay), for whoever has made sure that the stream may.
    #[inline]
    pub(crate) fn replay_on(&mut self, stream: &Commands<B>, at: At) -> Result<(), Error> {
        let mut failed = None;
        // With one queue there is no order to be made, and nothing to be spared.
        if !B::ONE_QUEUE && self.replay_again(stream, at, &mut failed) {
            return Ok(());
        }
        self.replay_anew(stream, at, failed)
    }

    /// A replay that repeats the one before, as most do, and of which nothing is to be refused, put in
    /// order, or marked. Whether it was one, and did not fail.
    #[inline]
    fn replay_again(&mut self, stream: &Commands<B>, at: At, failed: &mut Option<Error>) -> bool {
        let Parts {
            executable,
            touched,
            ..
        } = &mut *self.parts;
        let (repeat, downloads, captures) = (&self.repeat, &mut self.downloads, &self.captures);
        let are_same = || {
            touched.iter().all(|touched| {
                let block = touched.memory.block();
                !block.mark.is_set() && repeat.is_last_on(&block.page().uses)
            })
        };
        let replay = || {
            forget_read(downloads);
            match stream.transition(|t| B::replay(executable, t)) {
                Ok(()) => true,
                Err(error) => {
                    *failed = Some(error);
                    false
                }
            }
        };
        let touched = &**touched;
        let note = move |panicked: &Error| {
            stream.fail_wait("replay", at, panicked);
            mark_written(touched, captures, at, panicked);
        };
        noting_panics(note, || stream.in_order_again(repeat, are_same, replay)) == Some(true)
    }

    /// Any other replay, or what one that repeats the one before has failed with.
    fn replay_anew(
        &mut self,
        stream: &Commands<B>,
        at: At,
        failed: Option<Error>,
    ) -> Result<(), Error> {
        self.check_device("replay", stream, at)?;
        let Parts {
            executable,
            touched,
            ..
        } = &mut *self.parts;
        forget_read(&mut self.downloads);
        let (flights, repeat) = (&mut self.flights, &mut self.repeat);
        let captures = &self.captures;
        let mark = |error: &Error| mark_written(touched, captures, at, error);
        noting(mark, || {
            if let Some(failed) = failed {
                return stream.wait("replay", at, || Err(failed));
            }
            touched
                .iter()
                .filter(|touched| touched.input)
                .try_for_each(|touched| touched.memory.block().mark.check())?;
            stream.wait("replay", at, || {
                let pages = touched
                    .iter()
                    .map(|touched| (touched.memory.block().page(), touched.written));
                note_flight(flights, repeat.last());
                let submit = || stream.transition(|t| B::replay(executable, t));
                let (done, here) = stream.in_order_first(repeat, pages, submit);
                // Also where it failed: a driver may say so of a replay that it has started.
                note_flight(flights, Some(here));
                done
            })
        })?;
        for touched in touched.iter().filter(|touched| touched.written_whole) {
            touched.memory.block().mark.clear();
        }
        Ok(())
    }

    /// What the last replay left in a download, waiting for it. The graph is borrowed as long as
    /// the elements are looked at, so no replay can change them.
    ///
    /// Read outside windows, and let the result go before the next replay. If you don't:
    /// [`graph_read_while_recording`](crate::misuse::while_recording::graph_read_while_recording),
    /// [`replay_while_result_is_read`](crate::misuse::ownership::replay_while_result_is_read),
    /// [`result_outlives_graph`](crate::misuse::ownership::result_outlives_graph),
    /// [`download_read_as_other_elements`](crate::misuse::ownership::download_read_as_other_elements),
    /// [`graph_read_by_two_threads`](crate::misuse::threads::graph_read_by_two_threads).
    ///
    /// # Errors
    /// [`Error::ForeignDownload`] if it was recorded in another graph, or not recorded;
    /// [`Error::NotReplayed`] before the first replay; [`Error::Marked`] if the last one failed;
    /// [`Error::OtherDevice`]; or the driver's.
    #[track_caller]
    pub fn read<T: Pod, P>(
        &self,
        download: &Download<T>,
        stream: &Stream<P, B>,
    ) -> Result<&[T], Error>
    where
        P: MayWait,
    {
        self.read_on(download, stream, Location::caller())
    }

    /// As [`read`](Self::read), for whoever has made sure that the stream may wait.
    pub(crate) fn read_on<T: Pod>(
        &self,
        download: &Download<T>,
        stream: &Commands<B>,
        at: At,
    ) -> Result<&[T], Error> {
        self.check_device("read", stream, at)?;
        let landing = self
            .downloads
            .iter()
            .find(|landing| landing.handle.id() == download.id())
            .ok_or(Error::ForeignDownload { at })?;
        let bytes = landing.handle.bytes();
        if landing.read.get().is_none() {
            landing.check()?;
            let mut words = Vec::new();
            let count = bytes.div_ceil(size_of::<u128>());
            words
                .try_reserve_exact(count)
                .map_err(|_| Error::OutOfMemory {
                    bytes,
                    at: Some(at),
                })?;
            words.resize(count, 0u128);
            let all: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            let into = all.get_mut(..bytes).unwrap_or_default();
            stream.fetch(Span::new(&landing.handle, 0, bytes), into, at)?;
            // Where two threads read at once they read the same.
            let _ = landing.read.set(words);
        }
        let words = landing.read.get().map_or(&[][..], Vec::as_slice);
        let read = bytemuck::cast_slice::<u128, u8>(words)
            .get(..bytes)
            .unwrap_or_default();
        Ok(bytemuck::try_cast_slice(read).unwrap_or_default())
    }

    /// Marks what a replay that was refused should have written (N10).
    pub(crate) fn refuse(&mut self, at: At, error: &Error) {
        forget_read(&mut self.downloads);
        mark_written(&self.parts.touched, &self.captures, at, error);
    }

    /// The last replay on each stream.
    fn flights(&self) -> impl Iterator<Item = Place<B>> {
        self.flights.iter().cloned().chain(self.repeat.last())
    }

    /// Whether it was replayed since it was sealed.
    pub(crate) fn was_replayed(&self) -> bool {
        self.flights().next().is_some()
    }

    /// Whether somebody has seen all its replays done.
    pub(crate) fn is_known_done(&self) -> bool {
        self.flights().all(|flight| flight.line.is_done(flight.at))
    }

    /// Waits until no replay of it is in flight.
    ///
    /// # Errors
    /// What the work, or the wait, failed with.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.flights().try_for_each(|flight| flight.wait())
    }

    fn check_device(&self, call: &'static str, stream: &Commands<B>, at: At) -> Result<(), Error> {
        if self.captures.is_same_device(stream.captures()) {
            return Ok(());
        }
        Err(Error::OtherDevice {
            call,
            what: "graph",
            at,
        })
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

    /// The commands, in their order.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.commands.nodes()
    }

    /// What it keeps for itself (rule M7).
    #[must_use]
    pub fn memory(&self) -> GraphMemory {
        let touched = &self.parts.touched;
        let blocks = touched.iter().map(|touched| touched.memory.block());
        GraphMemory {
            buffers: touched.len(),
            device_bytes: covered_bytes(blocks),
            host_bytes: saturating_sum(self.nodes().map(|node| node.host_bytes())),
        }
    }

    /// The graph in the language of Graphviz: a node a command, and an edge where one uses what
    /// another left, named by the number of the buffer.
    #[must_use]
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph graph_capture {\n    node [shape=box];\n");
        let mut buffers: Vec<LastUse> = Vec::new();
        // Writing to a string cannot fail.
        for (index, node) in self.nodes().enumerate() {
            let label = format!("{index}: {}\n{}", node.title(), node.uses());
            let _ = writeln!(dot, "    n{index} [label={label:?}];");
            let mut edges = Vec::new();
            for access in node.accesses() {
                if buffers.len() <= access.buffer {
                    buffers.resize_with(access.buffer.saturating_add(1), LastUse::default);
                }
                if let Some(last) = buffers.get_mut(access.buffer) {
                    let befores = last.before(index, access.writes);
                    edges.extend(befores.into_iter().map(|before| (before, access.buffer)));
                }
            }
            edges.sort_unstable();
            edges.dedup();
            for (before, buffer) in edges {
                let _ = writeln!(dot, "    n{before} -> n{index} [label=\"{buffer}\"];");
            }
        }
        dot.push_str("}\n");
        dot
    }
}

/// What the host has read is of an earlier replay.
fn forget_read<B: Backend>(downloads: &mut [Landing<B>]) {
    for landing in downloads {
        landing.read.take();
    }
}

/// Marks what a replay should have written (M11).
#[cold]
fn mark_written<B: Backend>(
    touched: &[Touched<B>],
    captures: &DeviceCaptures<B>,
    at: At,
    error: &Error,
) {
    let cause = Cause::new(|| "replay".into(), at, error);
    for touched in touched.iter().filter(|touched| touched.written) {
        touched.memory.block().mark.set(&cause);
    }
    captures.change();
}

/// Notes the last replay on a line.
fn note_flight<B: Backend>(flights: &mut Vec<Place<B>>, last: Option<Place<B>>) {
    let Some(last) = last else {
        return;
    };
    match flights.iter_mut().find(|flight| flight.is_same_line(&last)) {
        Some(flight) => *flight = last,
        None => flights.push(last),
    }
}

/// Who used a buffer last, in a walk over the commands.
#[derive(Default)]
struct LastUse {
    write: Option<usize>,
    reads: Vec<usize>,
}

impl LastUse {
    /// The commands that `index` comes after because of this buffer.
    fn before(&mut self, index: usize, writes: bool) -> Vec<usize> {
        if !writes {
            self.reads.push(index);
            return self.write.into_iter().collect();
        }
        let reads = std::mem::take(&mut self.reads);
        let before = if reads.is_empty() {
            self.write.into_iter().collect()
        } else {
            reads
        };
        self.write = Some(index);
        before
            .into_iter()
            .filter(|&before| before != index)
            .collect()
    }
}

impl<B: Backend> Drop for Graph<B> {
    fn drop(&mut self) {
        // SAFETY: this is the graph's drop, which runs once, and nothing reads the parts after it.
        let parts = unsafe { ManuallyDrop::take(&mut self.parts) };
        let mut flights = std::mem::take(&mut self.flights);
        note_flight(&mut flights, self.repeat.last());
        flights.retain(|flight| !flight.line.is_done(flight.at));
        if flights.is_empty() {
            drop(parts);
        } else {
            self.captures
                .depart(Departed::new(flights, Box::new(parts)));
        }
    }
}

/// One line a command: its index, what it is, and the buffers it uses, by number.
impl<B: Backend> fmt::Display for Graph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes().enumerate() {
            writeln!(f, "{index}: {node}")?;
        }
        Ok(())
    }
}

impl<B: Backend> fmt::Debug for Graph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph")
            .field("commands", &self.len())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
