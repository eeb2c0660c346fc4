//! A stream, and the transitions between its phases.
#![allow(unsafe_code)] // `Send` for streams, by phase.

use std::fmt;
use std::ops::Deref;
use std::panic::Location;

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::commands::{Commands, same_length};
use crate::error::{Error, TransitionError};
use crate::graph::Graph;
use crate::memory::Buffer;
use crate::phase::{
    AnyThread, Capture, Is, MayWait, NoCapture, Phase, PhaseName, Prepared, Recording, UnderCapture,
};
use crate::record::CaptureStatus;
use crate::stream_id::StreamId;
use crate::window::{Kind, Window};

/// A stream of backend `B` in phase `P`.
///
/// Work on a stream is issued through its [`Commands`], to which it dereferences. The transitions
/// take the stream and give back the next phase:
///
/// | from | call | to |
/// |---|---|---|
/// | [`NoCapture`] | [`prepare`](Self::prepare) | [`Prepared`] |
/// | [`Prepared`] | [`begin`](Self::begin) | [`Recording`] |
/// | [`Recording`] | [`end`](Self::end) | [`NoCapture`] and a [`Graph`] |
/// | [`Prepared`], [`Recording`] | [`abort`](Self::abort) | [`NoCapture`] |
///
/// Any other order does not compile (rule L1). [`capture`](Self::capture) makes the whole way in
/// one call. To give a capture up together with its stream, drop the stream: in whatever phase,
/// the driver's window is closed and the device record left.
///
/// A stream is used by one thread at a time. It can move between threads, but for a recording on a
/// backend whose driver forbids it (see [`EndsAnywhere`](crate::EndsAnywhere)).
///
/// `std::mem::forget` on a stream under capture leaves its device recording for ever, and so keeps
/// all memory that is dropped later. [`capture`](Self::capture) cannot be forgotten.
#[must_use = "dropping a stream gives up the capture that is under way on it"]
pub struct Stream<P: Phase, B: Backend = Host> {
    data: P::Data<B>,
}

static_assertions::assert_not_impl_any!(Stream<NoCapture>: Sync, Clone);
static_assertions::assert_not_impl_any!(Stream<Prepared>: Sync, Clone);
static_assertions::assert_not_impl_any!(Stream<Recording>: Sync, Clone);
static_assertions::assert_impl_all!(Stream<NoCapture>: Send);
static_assertions::assert_impl_all!(Stream<Prepared>: Send);
static_assertions::assert_impl_all!(TransitionError<Stream<NoCapture>>: Send, Sync);
const _: () = assert!(
    size_of::<Stream<NoCapture>>() == size_of::<usize>(),
    "a stream without a capture is its commands and nothing more"
);

// SAFETY: a stream owns its commands, which nobody else refers to: a borrow of them borrows the
// stream. They are a driver, `Send` by the bound; the device's handle and captures, `Send` by the
// bounds on `Backend`; and what a capture gathers, which `_what_a_stream_carries_is_send` has the
// compiler check. Whether an open window may change its thread is asked of the phase.
unsafe impl<P: AnyThread<B>, B: Backend> Send for Stream<P, B> where B::Driver: Send {}

fn _what_a_stream_carries_is_send<B: Backend>()
where
    B::Driver: Send,
{
    fn is_send<T: Send>() {}
    is_send::<Box<Commands<B>>>();
    is_send::<Capture<B>>();
}

/// Opening, and looking.
impl<B: Backend> Stream<NoCapture, B> {
    /// A new stream of `device`. Backends offer it as a method of theirs, such as
    /// [`Host::stream`](crate::Host::stream).
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn on(device: &B) -> Result<Self, Error> {
        Ok(Self {
            data: Box::new(Commands::open(device)?),
        })
    }
}

impl<P: Phase, B: Backend> Stream<P, B> {
    /// The published capture phases of all streams of the device. A clone may go to any thread.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        self.captures().status()
    }

    /// The phase, as a value.
    #[must_use]
    pub fn phase(&self) -> PhaseName {
        P::NAME
    }

    /// Who prepared the capture: kept from `prepare` to its end, on whichever thread (rule L4).
    #[must_use]
    pub fn owner(&self) -> StreamId
    where
        P: UnderCapture,
    {
        P::owner(&self.data)
    }
}

/// The transitions.
#[expect(
    clippy::type_complexity,
    reason = "a reader looks for the phases, which an alias would hide"
)]
impl<P: Phase, B: Backend> Stream<P, B> {
    /// Records `work` and seals it, in one call: prepares, runs `work` once for real as the warm-up,
    /// opens the window, runs `work` again to record it, closes. Gives back the stream, the graph,
    /// and what the recorded run returned.
    ///
    /// Both runs must issue the same commands (rule L9). The capture cannot be left open: an error
    /// or a panic in `work` ends it. The owner is [`StreamId::current`].
    ///
    /// # Errors
    /// What `work` returned, or why the capture did not seal, as in [`begin`](Self::begin) and
    /// [`end`](Self::end); with the stream.
    pub fn capture<R>(
        self,
        mut work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(Stream<NoCapture, B>, Graph<B>, R), TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<NoCapture>,
    {
        let prepared = self.prepare()?;
        if let Err(failed) = work(&prepared) {
            return Err(prepared.give_up(failed));
        }
        let recording = prepared.begin()?;
        match work(&recording) {
            Ok(result) => {
                let (stream, graph) = recording.end()?;
                Ok((stream, graph, result))
            }
            Err(failed) => Err(recording.give_up(failed)),
        }
    }

    /// Starts a capture owned by the calling thread: [`prepare_as`](Self::prepare_as) with
    /// [`StreamId::current`].
    ///
    /// # Errors
    /// As [`prepare_as`](Self::prepare_as).
    pub fn prepare(self) -> Result<Stream<Prepared, B>, TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<NoCapture>,
    {
        self.prepare_as(StreamId::current())
    }

    /// Starts a capture that `owner` owns. What is issued from here to [`begin`](Self::begin) is
    /// the warm-up: it runs for real.
    ///
    /// # Errors
    /// The driver's refusal, with the stream; nothing has changed then.
    pub fn prepare_as(
        self,
        owner: StreamId,
    ) -> Result<Stream<Prepared, B>, TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<NoCapture>,
    {
        match Capture::prepare(P::cast(self.data), owner) {
            Ok(capture) => Ok(Stream { data: capture }),
            Err((error, commands)) => Err(TransitionError::new(error, Stream { data: commands })),
        }
    }

    /// Opens the window: from here to [`end`](Self::end) commands are recorded, and nothing runs.
    ///
    /// # Errors
    /// [`Error::NoWarmUp`], [`Error::WarmUpFailed`] (rule L14), or the driver's refusal. The capture
    /// has then ended, and the stream, in phase `NoCapture`, can start the sequence again (rule L2).
    pub fn begin(self) -> Result<Stream<Recording, B>, TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<Prepared>,
    {
        let mut capture = P::cast(self.data);
        match capture.begin() {
            Ok(()) => Ok(Stream { data: capture }),
            Err(error) => {
                let commands = capture.abort();
                Err(TransitionError::new(error, Stream { data: commands }))
            }
        }
    }

    /// Closes the window and seals what was recorded into a graph.
    ///
    /// # Errors
    /// What doomed the recording ([`Error::Doomed`], [`Error::Diverged`]), that it is empty
    /// ([`Error::EmptyRecording`]), or the driver's refusal. The recording is then lost, and the
    /// stream is in phase `NoCapture` all the same (rule L3).
    pub fn end(
        self,
    ) -> Result<(Stream<NoCapture, B>, Graph<B>), TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<Recording>,
    {
        let (commands, closed) = P::cast(self.data).close();
        let window = commands.window().replace(Window::idle());
        // The window's own failure came first, and is the one to tell (L8).
        let sealed = window.seal().and_then(|contents| {
            let recorded = closed?;
            let executable = commands.transition(|t| B::seal(t, recorded))?;
            Ok(Graph::new(
                executable,
                contents,
                commands.captures().clone(),
            ))
        });
        let stream = Stream { data: commands };
        match sealed {
            Ok(graph) => Ok((stream, graph)),
            Err(error) => Err(TransitionError::new(error, stream)),
        }
    }

    /// Gives the capture up, in either of its phases, and goes on with the stream. Nothing that
    /// was recorded ever runs. Never fails: a driver stream that will not leave its window is
    /// retired and replaced (rule L3).
    pub fn abort(self) -> Stream<NoCapture, B>
    where
        P: UnderCapture,
    {
        Stream {
            data: P::capture(self.data).abort(),
        }
    }

    /// Aborts for `failed`, or for what failed before it (L8).
    fn give_up(self, failed: Error) -> TransitionError<Stream<NoCapture, B>>
    where
        P: UnderCapture,
    {
        let first = self.window().borrow().doom().cloned();
        TransitionError::new(first.unwrap_or(failed), self.abort())
    }
}

/// Waiting for the device. None of it compiles while recording.
impl<P: Phase, B: Backend> Stream<P, B> {
    /// Waits until all that was issued on this stream is done.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    #[track_caller]
    pub fn synchronize(&self) -> Result<(), Error>
    where
        P: MayWait,
    {
        self.wait(Kind::Synchronize, Location::caller(), B::synchronize)?;
        self.waited();
        Ok(())
    }

    /// Waits for the stream, and copies the buffer to the host.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], what the work failed with, or the driver's refusal.
    #[track_caller]
    pub fn read<T: Pod>(&self, buffer: &Buffer<T, B>) -> Result<Vec<T>, Error>
    where
        P: MayWait,
    {
        self.check_memory("read", buffer.span(), Location::caller())?;
        let mut into = Vec::new();
        into.try_reserve_exact(buffer.len())
            .map_err(|_| Error::OutOfMemory {
                bytes: buffer.span().bytes(),
            })?;
        into.resize(buffer.len(), T::zeroed());
        self.read_into(buffer, &mut into)?;
        Ok(into)
    }

    /// As [`read`](Self::read), into memory of the caller's.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::LengthMismatch`] unless the lengths are equal.
    #[track_caller]
    pub fn read_into<T: Pod>(&self, buffer: &Buffer<T, B>, into: &mut [T]) -> Result<(), Error>
    where
        P: MayWait,
    {
        let at = Location::caller();
        same_length("read", buffer.len(), into.len(), at)?;
        self.check_memory("read", buffer.span(), at)?;
        let bytes = bytemuck::cast_slice_mut(into);
        self.wait(Kind::Read, at, |t| B::read(t, buffer.span(), bytes))?;
        self.waited();
        Ok(())
    }
}

impl<P: Phase, B: Backend> Deref for Stream<P, B> {
    type Target = Commands<B>;

    fn deref(&self) -> &Commands<B> {
        P::commands(&self.data)
    }
}

impl<P: Phase, B: Backend> fmt::Debug for Stream<P, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream<{}>", P::NAME)
    }
}
