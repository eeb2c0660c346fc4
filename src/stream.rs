//! A stream, and the transitions between its phases.
#![allow(unsafe_code)] // `Send` for streams, by phase.

use std::fmt;
use std::ops::Deref;

use crate::Host;
use crate::backend::Backend;
use crate::commands::Commands;
use crate::error::Error;
use crate::graph::Graph;
use crate::phase::{
    AnyThread, Capture, Is, NoCapture, Phase, PhaseName, Prepared, Recording, UnderCapture,
};
use crate::record::CaptureStatus;
use crate::stream_id::StreamId;
use crate::transition_error::TransitionError;
use crate::window::Window;

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
/// backend whose driver forbids it (see [`EndsAnywhere`](crate::backend::EndsAnywhere)). All that
/// does not compile is shown in [`misuse`](crate::misuse): among threads,
/// [`stream_shared_by_two_threads`](crate::misuse::threads::stream_shared_by_two_threads) and
/// [`pinned_recording_held_across_await`](crate::misuse::threads::pinned_recording_held_across_await);
/// and a stream is [not cloned](crate::misuse::ownership::stream_cloned), its insides are
/// [not exchanged](crate::misuse::ownership::streams_swapped) and
/// [not taken out](crate::misuse::sealed::stream_taken_apart), and there is
/// [no fourth phase](crate::misuse::sealed::stream_in_a_made_up_phase).
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
    /// Open it without a capture. If you don't:
    /// [`recording_opened_by_hand`](crate::misuse::sealed::recording_opened_by_hand).
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn on(device: &B) -> Result<Self, Error> {
        Ok(Self {
            data: Box::new(Commands::open(device)?),
        })
    }

    /// A stream over a driver stream that is there.
    #[cfg(feature = "cuda")]
    pub(crate) fn over(device: &B, driver: B::Driver) -> Self {
        Self {
            data: Box::new(Commands::over(device, driver)),
        }
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
    ///
    /// Ask while a capture is under way. If you don't:
    /// [`owner_without_capture`](crate::misuse::order::owner_without_capture).
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
    /// An error of your own in `work` goes through [`Error::step`]: `.map_err(Error::step)?`.
    ///
    /// Both runs must issue the same commands (rule L9). The capture cannot be left open: an error
    /// or a panic in `work` ends it. The owner is [`StreamId::current`].
    ///
    /// `work` gets the commands, and not the stream: what waits (`read`, `synchronize`, `replay`)
    /// comes after the capture.
    ///
    /// Call it on a stream without a capture, wait for nothing in `work`, carry no commands out of it,
    /// and take what comes back. If you don't:
    /// [`capture_while_prepared`](crate::misuse::order::capture_while_prepared),
    /// [`capture_while_recording`](crate::misuse::order::capture_while_recording),
    /// [`read_inside_capture`](crate::misuse::while_recording::read_inside_capture),
    /// [`synchronize_inside_capture`](crate::misuse::while_recording::synchronize_inside_capture),
    /// [`replay_inside_capture`](crate::misuse::while_recording::replay_inside_capture),
    /// [`commands_carried_out_of_capture`](crate::misuse::ownership::commands_carried_out_of_capture),
    /// [`stream_used_after_capture`](crate::misuse::ownership::stream_used_after_capture),
    /// [`capture_ignored`](crate::misuse::ownership::capture_ignored).
    ///
    /// # Errors
    /// With the stream: an error of `work`'s own (made with [`Error::step`]) as it is; where a
    /// command failed, that with its place, as [`Error::WarmUpFailed`] or [`Error::Doomed`]; or why
    /// the capture did not seal, as in [`begin`](Self::begin) and [`end`](Self::end).
    ///
    /// # Panics
    /// Where `work` does. The capture has then ended.
    pub fn capture<R>(
        self,
        work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(Stream<NoCapture, B>, Graph<B>, R), TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<NoCapture>,
    {
        self.capture_with(1, work)
    }

    /// As [`capture`](Self::capture), with as many passes of the warm-up as told: where the first
    /// ones compile kernels or choose among them. The last one is the one that the recording must
    /// equal (rule L15).
    ///
    /// Call it on a stream without a capture. If you don't:
    /// [`capture_while_recording`](crate::misuse::order::capture_while_recording).
    ///
    /// # Errors
    /// As [`capture`](Self::capture); [`Error::NoWarmUp`] for no passes.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn capture_with<R>(
        self,
        passes: usize,
        work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(Stream<NoCapture, B>, Graph<B>, R), TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<NoCapture>,
    {
        self.prepare()?.capture_from(passes, work)
    }

    /// What is left of [`capture_with`](Self::capture_with) on a prepared stream.
    pub(crate) fn capture_from<R>(
        self,
        passes: usize,
        mut work: impl FnMut(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(Stream<NoCapture, B>, Graph<B>, R), TransitionError<Stream<NoCapture, B>>>
    where
        P: Is<Prepared>,
    {
        let mut prepared = Stream::<Prepared, B> {
            data: P::cast(self.data),
        };
        for _ in 0..passes {
            prepared = prepared.again();
            if let Err(failed) = work(&prepared) {
                return Err(prepared.give_up(failed));
            }
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
    /// Call it once, on a stream without a capture, and go on with what comes back. If you don't:
    /// [`prepare_twice`](crate::misuse::order::prepare_twice),
    /// [`prepare_while_recording`](crate::misuse::order::prepare_while_recording),
    /// [`stream_used_after_prepare`](crate::misuse::ownership::stream_used_after_prepare),
    /// [`prepare_ignored`](crate::misuse::ownership::prepare_ignored).
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
    /// Call it once, on a stream without a capture. If you don't:
    /// [`prepare_for_another_owner`](crate::misuse::order::prepare_for_another_owner).
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

    /// Starts another pass of the warm-up. What the passes before issued is forgotten, also what
    /// failed in them: the last pass is the one that the recording must equal (rule L15).
    ///
    /// Call it before `begin`. If you don't:
    /// [`warm_up_again_while_recording`](crate::misuse::order::warm_up_again_while_recording).
    pub fn again(self) -> Stream<Prepared, B>
    where
        P: Is<Prepared>,
    {
        let capture = P::cast(self.data);
        capture.commands().window().borrow_mut().again();
        Stream { data: capture }
    }

    /// Opens the window: from here to [`end`](Self::end) commands are recorded, and nothing runs.
    ///
    /// Call it once, on a prepared stream, and go on with what comes back. If you don't:
    /// [`begin_without_prepare`](crate::misuse::order::begin_without_prepare),
    /// [`begin_twice`](crate::misuse::order::begin_twice),
    /// [`stream_used_after_begin`](crate::misuse::ownership::stream_used_after_begin).
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
    /// Call it on a recording, on a thread that may close it, and keep no commands past it. If you don't:
    /// [`end_without_begin`](crate::misuse::order::end_without_begin),
    /// [`end_while_only_prepared`](crate::misuse::order::end_while_only_prepared),
    /// [`pinned_recording_sent_to_another_thread`](crate::misuse::threads::pinned_recording_sent_to_another_thread),
    /// [`commands_kept_past_end`](crate::misuse::ownership::commands_kept_past_end),
    /// [`stream_used_after_end`](crate::misuse::ownership::stream_used_after_end),
    /// [`graph_ignored`](crate::misuse::ownership::graph_ignored).
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
        let capture = P::cast(self.data);
        let owner = capture.owner();
        let (commands, closed) = capture.close();
        let window = commands.window().replace(Window::idle());
        window.close();
        // The window's own failure came first, and is the one to tell (L8).
        let sealed = window.seal(owner).and_then(|contents| {
            let recorded = closed?;
            let executable = commands
                .transition(|t| B::seal(t, recorded))
                .map_err(|refused| contents.commands.blame(owner, refused))?;
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
    /// was recorded ever runs. A driver stream that will not leave its window is retired and replaced
    /// (rule L3).
    ///
    /// Call it while a capture is under way. If you don't:
    /// [`abort_without_capture`](crate::misuse::order::abort_without_capture),
    /// [`stream_used_after_abort`](crate::misuse::ownership::stream_used_after_abort).
    ///
    /// # Panics
    /// Where the driver does, or a value that the recording held; the capture has then ended.
    pub fn abort(self) -> Stream<NoCapture, B>
    where
        P: UnderCapture,
    {
        Stream {
            data: P::capture(self.data).abort(),
        }
    }

    /// Aborts for `failed`: for what the caller made of it, or else for what failed first (L8).
    fn give_up(self, failed: Error) -> TransitionError<Stream<NoCapture, B>>
    where
        P: UnderCapture,
    {
        let first = match failed {
            Error::Step(_) => None,
            _ => self.window().borrow().doom().cloned(),
        };
        TransitionError::new(first.unwrap_or(failed), self.abort())
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
