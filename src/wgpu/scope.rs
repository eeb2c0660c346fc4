//! The device as the driver's calls see it: errors in scopes of their own, waits with an end, and
//! whether the device is there at all.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::wgpu::{ErrorFilter, PollError, PollType, SubmissionIndex};

use crate::error::Error;

use super::bytes::Mover;
use super::kernel::Kernels;

/// What everything that was made on one device shares. It does not own the captures, so memory and
/// graphs may own it.
pub(super) struct Core {
    /// Tells devices apart: wgpu itself does so within one instance only.
    pub(super) id: u64,
    pub(super) device: ::wgpu::Device,
    pub(super) queue: ::wgpu::Queue,
    pub(super) limits: ::wgpu::Limits,
    pub(super) mover: OnceLock<Mover>,
    pub(super) kernels: Mutex<Kernels>,
    lost: OnceLock<Arc<str>>,
    /// In milliseconds.
    longest_wait: AtomicU64,
}

static_assertions::assert_impl_all!(Core: Send, Sync);

impl Core {
    /// A wait longer than this has lost its device, nearly always.
    const LONGEST_WAIT: Duration = Duration::from_secs(600);

    pub(super) fn new(device: ::wgpu::Device, queue: ::wgpu::Queue) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            limits: device.limits(),
            device,
            queue,
            mover: OnceLock::new(),
            kernels: Mutex::default(),
            lost: OnceLock::new(),
            longest_wait: AtomicU64::new(milliseconds(Self::LONGEST_WAIT)),
        }
    }

    /// The device is gone, for this reason.
    pub(super) fn note_lost(&self, reason: &str) {
        // The first reason is the one.
        self.lost.get_or_init(|| reason.into());
    }

    /// wgpu reports no error on a device that is lost, so we look.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn check_there(&self) -> Result<(), Error> {
        match self.lost.get() {
            None => Ok(()),
            Some(reason) => Err(Error::DeviceLost {
                reason: Arc::clone(reason),
            }),
        }
    }

    pub(super) fn longest_wait(&self) -> Duration {
        Duration::from_millis(self.longest_wait.load(Ordering::Relaxed))
    }

    pub(super) fn set_longest_wait(&self, longest: Duration) {
        self.longest_wait
            .store(milliseconds(longest), Ordering::Relaxed);
    }

    /// Calls wgpu, and hands out the first error of those calls. The handler for errors that nobody
    /// catches stays the program's.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::OutOfMemory`] of no size, or [`Error::Driver`] for `call`.
    pub(super) fn scoped<R>(
        &self,
        call: &'static str,
        calls: impl FnOnce() -> R,
    ) -> Result<R, Error> {
        self.check_there()?;
        let scope = |filter| self.device.push_error_scope(filter);
        let validation = scope(ErrorFilter::Validation);
        let memory = scope(ErrorFilter::OutOfMemory);
        let internal = scope(ErrorFilter::Internal);
        let done = calls();
        let internal = at_once(internal.pop()).flatten();
        let memory = at_once(memory.pop()).flatten();
        let validation = at_once(validation.pop()).flatten();
        self.check_there()?;
        match memory.or(validation).or(internal) {
            None => Ok(done),
            Some(::wgpu::Error::OutOfMemory { .. }) => Err(Error::out_of_memory(0)),
            Some(refused) => Err(Error::driver(call, refused)),
        }
    }

    /// The point behind all that was submitted so far.
    pub(super) fn mark(&self) -> Result<SubmissionIndex, Error> {
        self.scoped("mark", || self.queue.submit([]))
    }

    /// Waits for a point, and says whether it was reached in time.
    pub(super) fn wait(
        &self,
        call: &'static str,
        point: &SubmissionIndex,
        timeout: Duration,
    ) -> Result<bool, Error> {
        self.check_there()?;
        let wait = PollType::Wait {
            submission_index: Some(point.clone()),
            timeout: Some(timeout),
        };
        // It panics where the driver reports the device as lost, and runs callbacks of the program's.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(wait)));
        let reached = match polled {
            Ok(Ok(_)) => true,
            Ok(Err(PollError::Timeout)) => false,
            Ok(Err(refused)) => return Err(Error::driver(call, refused)),
            Err(panic) => match lost_in_poll(&*panic) {
                Some(reason) => {
                    self.note_lost(reason);
                    false
                }
                None => resume_unwind(panic),
            },
        };
        self.check_there()?;
        Ok(reached)
    }

    /// Waits for a point as long as the device allows.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::DeviceLost`], or the driver's refusal.
    pub(super) fn wait_for(
        &self,
        call: &'static str,
        point: &SubmissionIndex,
    ) -> Result<(), Error> {
        let longest = self.longest_wait();
        if self.wait(call, point, longest)? {
            return Ok(());
        }
        Err(Error::TimedOut {
            call,
            after: longest,
            at: None,
        })
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Why the device was lost, if that is what wgpu panicked for.
fn lost_in_poll(panic: &(dyn Any + Send)) -> Option<&str> {
    let message = panic.downcast_ref::<String>()?;
    message
        .starts_with("Error in Device::poll")
        .then_some(message)
}

/// The result of a future of wgpu's that is there at once, as all are on native targets.
pub(super) fn at_once<R>(future: impl Future<Output = R>) -> Option<R> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
