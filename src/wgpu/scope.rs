//! The device as the driver's calls see it: errors in scopes of their own, waits with an end, and
//! whether the device is there at all.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::wgpu::{
    BufferDescriptor, BufferUsages, CommandBuffer, ErrorFilter, PollError, PollType,
    SubmissionIndex,
};

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
    watched: AtomicBool,
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
            watched: AtomicBool::new(false),
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
        let (done, refused) = self.caught(calls);
        self.check_there()?;
        let Some(refused) = refused else {
            return Ok(done);
        };
        // What a lost device made is invalid, which is then what wgpu complains about.
        self.probe()?;
        match refused {
            ::wgpu::Error::OutOfMemory { .. } => Err(Error::out_of_memory(0)),
            refused => Err(Error::driver(call, refused)),
        }
    }

    /// Calls wgpu in scopes of our own, and hands out the first error beside the result.
    fn caught<R>(&self, calls: impl FnOnce() -> R) -> (R, Option<::wgpu::Error>) {
        let scope = |filter| self.device.push_error_scope(filter);
        let validation = scope(ErrorFilter::Validation);
        let memory = scope(ErrorFilter::OutOfMemory);
        let internal = scope(ErrorFilter::Internal);
        let done = calls();
        let internal = at_once(internal.pop()).flatten();
        let memory = at_once(memory.pop()).flatten();
        let validation = at_once(validation.pop()).flatten();
        (done, memory.or(validation).or(internal))
    }

    /// Submits. The queue of a lost device takes nothing, and says nothing: whoever waits for the point
    /// learns of it, and so do devices with a callback for it, here.
    ///
    /// # Errors
    /// As [`scoped`](Self::scoped), and what `encode` returns.
    pub(super) fn submit(
        &self,
        call: &'static str,
        encode: impl FnOnce() -> Result<Option<CommandBuffer>, Error>,
    ) -> Result<SubmissionIndex, Error> {
        let submitted = self.scoped(call, || {
            encode().map(|commands| self.queue.submit(commands))
        });
        if self.watched.load(Ordering::Relaxed) {
            self.poll(PollType::Poll)?;
        }
        if matches!(submitted, Ok(Err(_))) {
            // It may be that a lost device made nothing to encode with.
            self.probe()?;
        }
        submitted.flatten()
    }

    /// Makes sure that the device is there, where no point will be waited for: a lost one maps nothing.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn probe(&self) -> Result<(), Error> {
        let (is_mapped, refused) = self.caught(|| {
            let probe = self.device.create_buffer(&BufferDescriptor {
                label: Some("probe"),
                size: 16,
                usage: BufferUsages::COPY_SRC,
                mapped_at_creation: true,
            });
            probe.get_mapped_range(..).is_ok()
        });
        // One that is there says why it made none.
        if !is_mapped && refused.is_none() {
            self.note_lost("it makes no buffers any more");
        }
        self.check_there()
    }

    /// Has wgpu look after the queue, and says whether what was asked for was reached.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    fn poll(&self, poll: PollType) -> Result<bool, Error> {
        // It runs callbacks of the program's, and panics where the driver reports the device as lost.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(poll)));
        let reached = match polled {
            Ok(Ok(_)) => true,
            Ok(Err(PollError::Timeout)) => false,
            Ok(Err(PollError::WrongSubmissionIndex(..))) => {
                self.note_lost("it takes no work any more");
                false
            }
            Err(panic) => match message(&*panic) {
                // wgpu's own race between a wait that ends too early and another thread's wait.
                Some(message) if message.starts_with("If the queue is empty") => false,
                Some(message) if message.starts_with("Error in Device::poll") => {
                    self.note_lost(message);
                    false
                }
                _ => resume_unwind(panic),
            },
        };
        self.check_there()?;
        Ok(reached)
    }

    /// Waits for a point, and says whether it was reached in time.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn wait(&self, point: &SubmissionIndex, timeout: Duration) -> Result<bool, Error> {
        self.check_there()?;
        self.poll(PollType::Wait {
            submission_index: Some(point.clone()),
            timeout: Some(timeout),
        })
    }

    /// Has the callbacks run that are due.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub(super) fn look(&self) -> Result<(), Error> {
        self.check_there()?;
        self.poll(PollType::Poll).map(drop)
    }

    /// The device tells of its loss by a callback that calls [`note_lost`](Self::note_lost).
    pub(super) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
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
        if self.wait(point, longest)? {
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

fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
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
