//! The phases of a stream, what it carries in each, and who may do what in which.
#![allow(unsafe_code)] // `ManuallyDrop::take`, to move a stream's insides out of the guard around them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::backend::{Backend, EndsAnywhere};
use crate::commands::Commands;
use crate::error::Error;
use crate::lost::keep_for_good;
use crate::record::Entry;
use crate::stream_id::StreamId;
use crate::window::Window;

/// Nothing is under way. The phase of a new stream, and of every stream whose capture ended.
#[derive(Debug)]
pub enum NoCapture {}

/// The warm-up: commands run for real, and are noted to be compared with the recording.
#[derive(Debug)]
pub enum Prepared {}

/// The window is open: commands are recorded, and nothing runs.
#[derive(Debug)]
pub enum Recording {}

/// The phase of a stream, as a value: for logs and servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PhaseName {
    // Other names than the phases', or the compiler would print those with their paths.
    /// [`NoCapture`](crate::NoCapture).
    Idle,
    /// [`Prepared`](crate::Prepared).
    WarmUp,
    /// [`Recording`](crate::Recording).
    Window,
}

impl fmt::Display for PhaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "NoCapture",
            Self::WarmUp => "Prepared",
            Self::Window => "Recording",
        })
    }
}

mod sealed {
    pub struct Key;

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be a phase of a stream: there is no fourth",
        label = "not a phase",
        note = "the phases are `NoCapture`, `Prepared` and `Recording`; they say what a driver is doing, so no crate adds one"
    )]
    pub trait Sealed {}
    impl Sealed for super::NoCapture {}
    impl Sealed for super::Prepared {}
    impl Sealed for super::Recording {}
}

/// One of [`NoCapture`], [`Prepared`], [`Recording`]. Sealed: there is
/// [no fourth](crate::misuse::sealed::phase_of_your_own).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a phase of a stream",
    label = "not a phase",
    note = "the phases are `NoCapture`, `Prepared` and `Recording`, and there are no others"
)]
pub trait Phase: sealed::Sealed + Sized + 'static {
    /// What a stream carries in this phase: its commands, and under capture the guard around them.
    #[doc(hidden)]
    type Data<B: Backend>;

    #[doc(hidden)]
    const NAME: PhaseName;

    #[doc(hidden)]
    fn commands<B: Backend>(data: &Self::Data<B>) -> &Commands<B>;
}

impl Phase for NoCapture {
    type Data<B: Backend> = Box<Commands<B>>;
    const NAME: PhaseName = PhaseName::Idle;

    fn commands<B: Backend>(data: &Self::Data<B>) -> &Commands<B> {
        data
    }
}

impl Phase for Prepared {
    type Data<B: Backend> = Capture<B>;
    const NAME: PhaseName = PhaseName::WarmUp;

    fn commands<B: Backend>(data: &Self::Data<B>) -> &Commands<B> {
        data.commands()
    }
}

impl Phase for Recording {
    type Data<B: Backend> = Capture<B>;
    const NAME: PhaseName = PhaseName::Window;

    fn commands<B: Backend>(data: &Self::Data<B>) -> &Commands<B> {
        data.commands()
    }
}

/// The phase is `Q`. Every phase is itself and no other, so a call in the wrong phase does not
/// compile, and the compiler names both.
#[diagnostic::on_unimplemented(
    message = "this call needs a stream in phase `{Q}`, but the stream is in phase `{Self}`",
    label = "needs phase `{Q}`, and is in `{Self}`",
    note = "there is one order: NoCapture --prepare--> Prepared --begin--> Recording --end--> NoCapture and a graph",
    note = "first call what leads from `{Self}` to `{Q}`; `abort` leads back to `NoCapture` from both others"
)]
pub trait Is<Q: Phase>: Phase {
    #[doc(hidden)]
    fn cast<B: Backend>(data: Self::Data<B>) -> Q::Data<B>;
}

impl<P: Phase> Is<P> for P {
    fn cast<B: Backend>(data: P::Data<B>) -> P::Data<B> {
        data
    }
}

/// A capture is under way: [`Prepared`] or [`Recording`].
#[diagnostic::on_unimplemented(
    message = "this call needs a stream in phase `Prepared` or `Recording`, but the stream is in phase `{Self}`",
    label = "no capture is under way, so none can be given up, and nobody owns it",
    note = "call `prepare` first: it starts a capture"
)]
pub trait UnderCapture: Phase {
    #[doc(hidden)]
    fn capture<B: Backend>(data: Self::Data<B>) -> Capture<B>;

    #[doc(hidden)]
    fn owner<B: Backend>(data: &Self::Data<B>) -> StreamId;
}

impl UnderCapture for Prepared {
    fn capture<B: Backend>(data: Capture<B>) -> Capture<B> {
        data
    }

    fn owner<B: Backend>(data: &Capture<B>) -> StreamId {
        data.owner()
    }
}

impl UnderCapture for Recording {
    fn capture<B: Backend>(data: Capture<B>) -> Capture<B> {
        data
    }

    fn owner<B: Backend>(data: &Capture<B>) -> StreamId {
        data.owner()
    }
}

/// The stream may wait for the device: [`NoCapture`] or [`Prepared`], and
/// [no other](crate::misuse::sealed::recording_may_wait).
#[diagnostic::on_unimplemented(
    message = "reading, waiting and replaying need a stream in phase `NoCapture` or `Prepared`, but the stream is in phase `{Self}`",
    label = "not while recording: nothing that was recorded has run",
    note = "call `end` first: it closes the window and gives back a stream in phase `NoCapture`"
)]
pub trait MayWait: Phase {}
impl MayWait for NoCapture {}
impl MayWait for Prepared {}

static_assertions::assert_not_impl_any!(Recording: MayWait, Is<NoCapture>, Is<Prepared>);
static_assertions::assert_not_impl_any!(Prepared: Is<NoCapture>, Is<Recording>);
static_assertions::assert_not_impl_any!(NoCapture: UnderCapture, Is<Prepared>, Is<Recording>);

/// A stream of `B` in this phase may move to another thread. A backend says so by
/// [`EndsAnywhere`], and [in no other way](crate::misuse::sealed::pinned_recording_declared_free).
#[diagnostic::on_unimplemented(
    message = "a stream in phase `{Self}` cannot move to another thread",
    label = "cannot move to another thread",
    note = "end or abort the capture first"
)]
pub trait AnyThread<B: Backend>: Phase {
    /// Takes a type that nobody outside can name, or a backend could implement the trait.
    #[doc(hidden)]
    fn sealed(_: sealed::Key);
}

impl<B: Backend> AnyThread<B> for NoCapture {
    fn sealed(_: sealed::Key) {}
}

impl<B: Backend> AnyThread<B> for Prepared {
    fn sealed(_: sealed::Key) {}
}

impl<B: Backend + EndsAnywhere> AnyThread<B> for Recording {
    fn sealed(_: sealed::Key) {}
}

/// A capture under way: the commands of its stream, its place in the record, and its owner. However
/// it is dropped, the driver's window is closed and the record left (L3, L5, L12).
pub struct Capture<B: Backend>(ManuallyDrop<Parts<B>>);

struct Parts<B: Backend> {
    commands: Box<Commands<B>>,
    entry: Entry,
    owner: StreamId,
}

impl<B: Backend> Capture<B> {
    /// Arms the driver, then publishes.
    ///
    /// # Errors
    /// The driver's refusal; nothing was published then.
    pub(crate) fn prepare(
        mut commands: Box<Commands<B>>,
        owner: StreamId,
    ) -> Result<Self, (Error, Box<Commands<B>>)> {
        let armed = commands
            .recover_driver()
            .and_then(|()| commands.transition(B::prepare));
        if let Err(refused) = armed {
            return Err((refused, commands));
        }
        let window = Window::warm_up(owner, commands.captures().pool());
        commands.window().replace(window);
        let entry = commands.captures().prepare(owner);
        Ok(Self(ManuallyDrop::new(Parts {
            commands,
            entry,
            owner,
        })))
    }

    pub(crate) fn commands(&self) -> &Commands<B> {
        &self.0.commands
    }

    pub(crate) fn owner(&self) -> StreamId {
        self.0.owner
    }

    /// Publishes the window, then opens the driver's (L3).
    ///
    /// # Errors
    /// Why not. The capture must then be aborted.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        let Parts {
            commands, entry, ..
        } = &mut *self.0;
        let plan = commands.window().borrow_mut().end_warm_up()?;
        let primed = commands.window().borrow().primed();
        if let Some(primed) = primed {
            let record = commands.captures().record();
            primed.reserve(commands.device(), record, &plan.pages)?;
        }
        commands.captures().begin(entry);
        commands.line().enter_window()?;
        commands.transition(B::begin)?;
        commands.window().borrow_mut().open(plan);
        Ok(())
    }

    /// Closes the driver's window, publishes, and hands out what was recorded (L3).
    pub(crate) fn close(self) -> (Box<Commands<B>>, Result<B::Recorded, Error>) {
        self.into_parts().leave(|commands| {
            let closed = commands.transition(B::close);
            if closed.is_err() && commands.is_stuck() {
                commands.replace_driver();
            }
            closed
        })
    }

    /// Gives the capture up. What it held goes last, with nothing borrowed (M14).
    pub(crate) fn abort(self) -> Box<Commands<B>> {
        self.into_parts().abort()
    }

    fn into_parts(self) -> Parts<B> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so the guard's own `Drop` does not take the parts again,
        // and nothing reads them through it after this line.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<B: Backend> Drop for Capture<B> {
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, `into_parts` prevents it where it took the parts, and nothing
        // reads them after this line.
        let parts = unsafe { ManuallyDrop::take(&mut self.0) };
        no_second_panic(|| drop(parts.abort()));
    }
}

impl<B: Backend> Parts<B> {
    /// Leaves the driver's window by `leave`, then publishes. A panic on the way is let go on when
    /// both are done; the driver stream that it left in an unknown state is retired.
    fn leave<R>(self, leave: impl FnOnce(&mut Commands<B>) -> R) -> (Box<Commands<B>>, R) {
        let Self {
            mut commands,
            entry,
            ..
        } = self;
        let left = catch_unwind(AssertUnwindSafe(|| {
            let left = leave(&mut commands);
            // The driver stream is in no window now: it left, or it is another.
            commands.line().leave_window();
            left
        }));
        if left.is_err() {
            let replaced = catch_unwind(AssertUnwindSafe(|| commands.replace_driver()));
            // Not dropped: a panic's value may panic when it is dropped, before the record is left.
            keep_for_good(replaced);
        }
        commands.captures().leave(entry);
        match left {
            Ok(left) => (commands, left),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn abort(self) -> Box<Commands<B>> {
        let (commands, recorded) = self.leave(|commands| {
            let aborted = commands.transition(|t| Ok(B::abort(t)));
            if aborted.is_ok() && commands.is_stuck() {
                commands.replace_driver();
            }
            aborted
        });
        let given_up = commands.window().replace(Window::idle());
        given_up.close();
        drop((recorded, given_up));
        commands
    }
}

/// Runs `f`, for a drop: while another panic unwinds, one of `f` would abort the process, so it is
/// let go.
pub(crate) fn no_second_panic(f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        if std::thread::panicking() {
            keep_for_good(panic);
        } else {
            resume_unwind(panic);
        }
    }
}
