//! What a driver must supply to be captured, and the tokens that keep its calls in order.
//!
//! The order of the phases is never a backend's business: the crate calls these functions in the
//! order of the rules, and the two tokens, which only the crate can make, keep everyone else from
//! calling them.

use std::time::Duration;

use crate::error::Error;

pub use crate::captures::DeviceCaptures;
pub use crate::memory::{Held, Span};

/// A driver that can be captured. `Self` is the handle of one device: a clone is the same device.
///
/// # Implementing it for a driver of your own
///
/// Supply the functions below, put one [`DeviceCaptures`] beside the device, implement
/// [`OpenCalls`], and add the launches as an extension trait on [`Commands<Mine>`](crate::Commands),
/// each a call of [`Commands::custom`](crate::Commands::custom). Phases, record, trace, the pool,
/// order between streams, and checks of devices and aliases come from the crate.
///
/// Functions that take a [`Call`] run the work, or record it while [`Call::is_recording`]. They and
/// [`replay`](Backend::replay) are called under the device's turn to submit, unless there is
/// [one queue](Backend::ONE_QUEUE), and [`free`](Backend::free) under the device's gate: none of
/// them may issue commands. No other function is called with a lock of the crate held.
pub trait Backend: Clone + Send + Sync + Sized + 'static {
    /// One driver stream. It uses interior mutability, and is never used from two threads at once.
    /// A stream is `Send` where this is. Dropping it retires the driver stream, whatever its state.
    type Driver: 'static;

    /// One allocation, given back by [`free`](Backend::free).
    ///
    /// It must not own a clone of `Self`: free memory is kept in a pool that `Self` owns, so neither
    /// would ever go. Let it own what is needed to free it.
    type Memory: Send + Sync + 'static;

    /// What a closed window yields: not yet executable.
    type Recorded: 'static;

    /// A sealed graph's executable form. Dropped on any thread, and only when its replays are done.
    /// Like [`Memory`](Backend::Memory) it must not own a clone of `Self`.
    type Executable: Send + 'static;

    /// What marks points in the work of one driver stream, from any thread, as long as anybody needs
    /// it: also after the driver stream was dropped.
    type Timeline: Send + Sync + 'static;

    /// A point in the work of a driver stream: reached when all that was submitted before it is done.
    type Point: Send + Sync + 'static;

    /// A copy to the host that was submitted and not yet waited for.
    type Fetched;

    /// Whether all streams of the device feed one queue that runs in the order of submission, and
    /// memory may be freed while submitted work uses it. The crate then orders nothing itself.
    const ONE_QUEUE: bool;

    /// Whether two buffers may have parts of one [`Memory`](Backend::Memory) at the same time: one
    /// command then reads and writes it, at ranges that do not overlap, or copies within it. Where it
    /// is false, they have it one after the other alone, and a window that allocates in many sizes
    /// may hold more than it has at once (rule M2).
    const PARTS_MEMORY: bool;

    /// The record of this device: the same for every clone of the handle (rule L13).
    fn captures(&self) -> &DeviceCaptures<Self>;

    /// Opens a driver stream.
    ///
    /// # Errors
    /// The driver's refusal.
    fn open(&self) -> Result<Self::Driver, Error>;

    /// Arms the driver stream for a warm-up.
    ///
    /// # Errors
    /// The driver's refusal. It must then be as it was.
    fn prepare(t: Transition<'_, Self>) -> Result<(), Error>;

    /// Opens the driver's window: from here on its commands are recorded.
    ///
    /// # Errors
    /// The driver's refusal. [`abort`](Backend::abort) is called next.
    fn begin(t: Transition<'_, Self>) -> Result<(), Error>;

    /// Closes the driver's window, also when it returns an error.
    ///
    /// # Errors
    /// The driver's refusal. [`in_window`](Backend::in_window) is asked next.
    fn close(t: Transition<'_, Self>) -> Result<Self::Recorded, Error>;

    /// Makes a closed window executable.
    ///
    /// # Errors
    /// The driver's refusal; [`Error::refused_at_seal`] where one of the commands is at fault. The
    /// recording is then lost.
    fn seal(t: Transition<'_, Self>, recorded: Self::Recorded) -> Result<Self::Executable, Error>;

    /// Gives up a capture in any state: disarms, closes an open window, and hands out what it had
    /// recorded, which the crate drops when the record is left.
    fn abort(t: Transition<'_, Self>) -> Option<Self::Recorded>;

    /// Whether the driver stream is still in a window: asked after a `close` that failed and after
    /// an `abort`. Where it is, the crate retires the driver stream and opens another (rule L3).
    fn in_window(t: Transition<'_, Self>) -> bool;

    /// Submits a sealed graph, without waiting for the device (rule L16). It is one submission: no
    /// other work of the device falls between its nodes.
    ///
    /// # Errors
    /// The driver's refusal.
    fn replay(executable: &mut Self::Executable, t: Transition<'_, Self>) -> Result<(), Error>;

    /// Waits until all work submitted to this driver stream is done.
    ///
    /// # Errors
    /// What the work, or the wait, failed with.
    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error>;

    /// Submits a copy of bytes of the device to the host, without waiting for it.
    ///
    /// # Errors
    /// The driver's refusal.
    fn fetch(call: Call<'_, Self>, from: Span<'_, Self>) -> Result<Self::Fetched, Error>;

    /// Waits for a fetch on the same driver stream, and takes its bytes. `into` is as long as what
    /// was fetched.
    ///
    /// # Errors
    /// What the work, or the wait, failed with.
    fn land(t: Transition<'_, Self>, fetched: Self::Fetched, into: &mut [u8]) -> Result<(), Error>;

    /// The timeline of a driver stream.
    fn timeline(driver: &Self::Driver) -> Self::Timeline;

    /// Marks the point behind all that was submitted so far. Never called while the driver stream
    /// is in a window.
    ///
    /// # Errors
    /// The driver's refusal.
    fn mark(timeline: &Self::Timeline) -> Result<Self::Point, Error>;

    /// Has the later work of this driver stream wait for a point of another, on the device. Never
    /// called while the driver stream is in a window.
    ///
    /// # Errors
    /// The driver's refusal.
    fn follow(call: Call<'_, Self>, point: &Self::Point) -> Result<(), Error>;

    /// Whether a point is reached, without waiting.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    fn is_reached(point: &Self::Point) -> Result<bool, Error>;

    /// Waits on the host until a point is reached, or for the time given, and says whether it is.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    fn wait(point: &Self::Point, timeout: Option<Duration>) -> Result<bool, Error>;

    /// Allocates `bytes` bytes, aligned to at least 16, of any content. Never called for a stream
    /// that is in a window (rule M4); a window of another stream may be open.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's refusal.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory, Error>;

    /// Gives memory back to the driver: on any thread, only while no window of the device is open
    /// (rule M5), and only when the work that used it is done, unless there is
    /// [one queue](Backend::ONE_QUEUE).
    ///
    /// # Errors
    /// The driver's refusal. The memory counts as lost then.
    fn free(memory: Self::Memory) -> Result<(), Error>;

    /// Copies bytes of the host to the device. `bytes` is as long as `to`, and may be gone when the
    /// call returns: a recording keeps a copy of its own (rule M6).
    ///
    /// # Errors
    /// The driver's refusal.
    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error>;

    /// Copies between two allocations, or parts of one. The spans are of one length, and do not overlap.
    ///
    /// # Errors
    /// The driver's refusal.
    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error>;

    /// Repeats `pattern` over `to`, whose length is a multiple of the pattern's.
    ///
    /// # Errors
    /// The driver's refusal.
    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error>;
}

/// A backend whose captures may end on another thread than the one they began on.
///
/// Where it is missing, `Stream<Recording, B>` is not `Send`, and a recording that is carried to
/// another thread, or held across an `.await` of a spawned task, does not compile.
#[diagnostic::on_unimplemented(
    message = "a recording on `{Self}` cannot move to another thread",
    label = "this would carry an open window to another thread",
    note = "the driver of `{Self}` closes a window only on the thread that opened it",
    note = "end or abort the recording before it moves; a stream in phase `NoCapture` or `Prepared` may move"
)]
pub trait EndsAnywhere: Backend {}

/// A backend that lets any crate issue commands of its own, through [`Commands::custom`](crate::Commands::custom).
///
/// Only the crate that owns the backend can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take custom commands",
    label = "`custom` is for backends that implement `OpenCalls`",
    note = "use the launches that the backend offers"
)]
pub trait OpenCalls: Backend {}

/// Permission to run one transition, wait or replay on a driver stream. Made by the crate alone: it is
/// neither [forged](crate::misuse::sealed::token_forged) nor [made](crate::misuse::sealed::token_made) by
/// others, nor [passed on](crate::misuse::sealed::token_of_another_backend), so nobody
/// [calls a backend by hand](crate::misuse::sealed::backend_called_by_hand).
pub struct Transition<'a, B: Backend> {
    driver: &'a B::Driver,
    device: &'a B,
}

/// Permission to run or record one command on a driver stream. Made by the crate alone, and no use
/// for transitions.
pub struct Call<'a, B: Backend> {
    driver: &'a B::Driver,
    device: &'a B,
    recording: bool,
    pass: Option<u64>,
}

/// What a custom command gets: the driver stream, and no permission to call [`Backend`]'s functions.
pub struct Custom<'a, B: Backend> {
    driver: &'a B::Driver,
    device: &'a B,
    recording: bool,
}

macro_rules! token {
    ($token:ident) => {
        impl<'a, B: Backend> $token<'a, B> {
            /// The driver stream.
            #[must_use]
            pub fn driver(&self) -> &'a B::Driver {
                self.driver
            }

            /// The device.
            #[must_use]
            pub fn device(&self) -> &'a B {
                self.device
            }
        }

        // It stays where the crate hands it out.
        static_assertions::assert_not_impl_any!($token<'static, crate::Host>: Clone, Copy);
    };
}
token!(Transition);
token!(Call);
token!(Custom);

impl<'a, B: Backend> Transition<'a, B> {
    pub(crate) fn new(driver: &'a B::Driver, device: &'a B) -> Self {
        Self { driver, device }
    }
}

impl<'a, B: Backend> Call<'a, B> {
    pub(crate) fn new(driver: &'a B::Driver, device: &'a B, recording: bool) -> Self {
        Self {
            driver,
            device,
            recording,
            pass: None,
        }
    }

    /// Of a pass of a warm-up.
    pub(crate) fn in_pass(self, pass: Option<u64>) -> Self {
        Self { pass, ..self }
    }

    /// Which pass of a warm-up the command is part of: never the same number for two. `None` outside, and
    /// beside one on its stream (rule N12). The last pass is what the window will equal (rule L15), so a
    /// backend learns from it what to have ready.
    #[must_use]
    pub fn pass(&self) -> Option<u64> {
        self.pass
    }

    /// Whether a window is open: the command must be recorded, and nothing may run (rule L10).
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.recording
    }
}

impl<'a, B: Backend> Custom<'a, B> {
    pub(crate) fn new(call: Call<'a, B>) -> Self {
        Self {
            driver: call.driver,
            device: call.device,
            recording: call.recording,
        }
    }

    /// Whether a window is open: the command must be recorded, and nothing may run (rule L10).
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.recording
    }
}
