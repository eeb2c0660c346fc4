//! The host device: its lock, and who may not take it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::{Call, EndsAnywhere};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::DeviceMemory;
use crate::phase::NoCapture;
use crate::record::CaptureStatus;
use crate::stream::Stream;

use super::faults::{Builder, Faults, Step};

/// The host as a device. Each [`Host::new`] is a device of its own, a clone is the same device.
///
/// One lock a device spans every command and every whole replay, so streams on several threads take
/// turns. A kernel that waits for another thread, which uses the same device, therefore waits for
/// ever: kernels must not wait.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    captures: DeviceCaptures<Host>,
    faults: Arc<Faults>,
    /// Held while a command or a replay runs (M9).
    running: Mutex<()>,
}

static_assertions::assert_impl_all!(Host: Clone, Send, Sync);

impl Host {
    /// A new device.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Faults::none())
    }

    /// A device with limits, or one that fails where it is told to: for tests.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn with(faults: Faults) -> Self {
        Self {
            shared: Arc::new(Shared {
                captures: DeviceCaptures::new(),
                faults: Arc::new(faults),
                running: Mutex::new(()),
            }),
        }
    }

    /// A new stream.
    ///
    /// # Errors
    /// None on the host today; other backends have some.
    pub fn stream(&self) -> Result<Stream<NoCapture, Self>, Error> {
        Stream::on(self)
    }

    /// The capture phases of all streams of this device.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        self.shared.captures.status()
    }

    /// Where the memory of this device is (rule M7).
    #[must_use]
    pub fn memory(&self) -> DeviceMemory {
        self.shared.captures.memory()
    }

    /// Gives the pool's free memory back.
    ///
    /// # Errors
    /// [`Error::TrimWhileRecording`] while any stream of this device records.
    pub fn trim(&self) -> Result<(), Error> {
        self.shared.captures.trim()
    }

    /// How many steps of that sort the device has taken or failed. Only devices of the
    /// [`builder`](Self::builder) count.
    #[must_use]
    pub fn steps(&self, step: Step) -> usize {
        self.shared.faults.count(step)
    }

    pub(super) fn faults(&self) -> &Arc<Faults> {
        &self.shared.faults
    }

    pub(super) fn device_captures(&self) -> &DeviceCaptures<Self> {
        &self.shared.captures
    }

    /// Waits for the device's turn.
    ///
    /// # Errors
    /// [`Error::InsideKernel`].
    #[inline]
    pub(super) fn turn(&self, call: &'static str) -> Result<Turn<'_>, Error> {
        not_in_kernel(call)?;
        let running = self
            .shared
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(Turn(running))
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(self.status()).finish()
    }
}

/// The host closes a window on any thread.
impl EndsAnywhere for Host {}

thread_local! {
    // No destructor, so it can be asked while a thread is torn down.
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
}

/// Refuses calls from kernels, of whichever device: they would wait for the turn that they hold, or
/// for a device whose kernel waits for theirs.
#[inline]
pub(super) fn not_in_kernel(call: &'static str) -> Result<(), Error> {
    if IN_KERNEL.get() {
        return Err(Error::InsideKernel { call, at: None });
    }
    Ok(())
}

/// The device's turn: nothing else runs on it.
pub(super) struct Turn<'a>(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'a, ()>);

impl Turn<'_> {
    /// Runs kernels.
    pub(super) fn run<R>(&self, kernels: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                IN_KERNEL.set(false);
            }
        }
        IN_KERNEL.set(true);
        let _leave = Leave;
        kernels()
    }
}

/// One command of a recording.
pub(super) type Node = Box<dyn Fn() + Send + Sync>;

/// A stream of the host: what its open window has recorded.
#[derive(Default)]
pub struct Driver {
    window: RefCell<Option<Vec<Node>>>,
}

impl Driver {
    pub(super) fn open_window(&self) {
        // Outside a capture the slot is empty, so nothing of the user's is dropped in the borrow.
        self.window.replace(Some(Vec::new()));
    }

    /// Closes the window and hands out what was recorded.
    pub(super) fn close_window(&self) -> Vec<Node> {
        self.window.take().unwrap_or_default()
    }

    pub(super) fn in_window(&self) -> bool {
        self.window.borrow().is_some()
    }

    #[inline]
    fn record(&self, node: Node) {
        if let Some(nodes) = self.window.borrow_mut().as_mut() {
            nodes.push(node);
        }
    }
}

/// Records a command.
///
/// # Errors
/// [`Error::InsideKernel`]: the command is skipped, which dooms the recording.
pub(super) fn record(
    call: &Call<'_, Host>,
    name: &'static str,
    node: impl Fn() + Send + Sync + 'static,
) -> Result<(), Error> {
    not_in_kernel(name)?;
    call.device().faults().attempt(Step::Command, name, || {
        call.driver().record(Box::new(node));
        Ok(())
    })
}

/// Runs a command in the device's turn.
///
/// # Errors
/// [`Error::InsideKernel`], or the fault that was ordered.
pub(super) fn run(
    device: &Host,
    name: &'static str,
    work: impl FnOnce(&Turn<'_>),
) -> Result<(), Error> {
    let turn = device.turn(name)?;
    device.faults().attempt(Step::Command, name, || {
        work(&turn);
        Ok(())
    })
}
