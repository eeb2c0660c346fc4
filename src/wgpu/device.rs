//! The device: the program's own, or one of ours; and its streams.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ::wgpu::{BufferDescriptor, BufferUsages, CommandBuffer, ErrorFilter, SubmissionIndex};

use crate::backend::EndsAnywhere;
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::DeviceMemory;
use crate::phase::NoCapture;
use crate::record::CaptureStatus;
use crate::stream::Stream;

use super::memory::Adopted;
use super::recorded::Recorded;
use super::scope::{Core, at_once, lock};

/// A device of wgpu. A clone is the same device, and so is the same device adopted twice (rule L13).
///
/// All its streams feed the one queue that wgpu has a device, in the order of their calls.
#[derive(Clone)]
pub struct Wgpu {
    shared: Arc<Shared>,
}

struct Shared {
    captures: DeviceCaptures<Wgpu>,
    core: Arc<Core>,
    adopted: Mutex<Adopted>,
}

static_assertions::assert_impl_all!(Wgpu: Clone, Send, Sync);

/// The devices that are in use, for whoever adopts one again.
static DEVICES: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

impl Wgpu {
    /// The device of the program, with its own queue. Adopted twice, it is one device.
    ///
    /// Its handler of uncaptured errors and its callback for a lost device stay the program's; pass
    /// the latter's call on to [`note_lost`](Self::note_lost).
    ///
    /// The queue must be the device's: wgpu does not compare them, and panics, or reports to the other
    /// device, when work of one is given to the other.
    #[must_use]
    pub fn adopt(device: ::wgpu::Device, queue: ::wgpu::Queue) -> Self {
        // Dropped after the lock is left: one of them may be the last handle of its device (M14).
        let known: Vec<_>;
        let mut devices = lock(&DEVICES);
        devices.retain(|known| known.strong_count() > 0);
        known = devices.iter().filter_map(Weak::upgrade).collect();
        let mut known = known.iter();
        if let Some(shared) = known.find(|known| is_same_device(&known.core, &device)) {
            let shared = Arc::clone(shared);
            return Self { shared };
        }
        let shared = Arc::new(Shared {
            captures: DeviceCaptures::new(),
            core: Arc::new(Core::new(device, queue)),
            adopted: Mutex::default(),
        });
        devices.push(Arc::downgrade(&shared));
        Self { shared }
    }

    /// A device of the fastest adapter that there is, with all its limits and no optional features:
    /// for those, [`adopt`](Self::adopt) one of your own. That it is lost is noticed. The variables that
    /// wgpu reads, such as `WGPU_BACKEND`, choose.
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn request() -> Result<Self, Error> {
        let unavailable = |error: &dyn fmt::Display| {
            Error::Unavailable {
            what: format!(
                "wgpu found none ({error}); install a driver of Vulkan, Metal or Direct3D 12, such as \
                 Mesa's, which also has one for the CPU"
            )
            .into(),
        }
        };
        let instance = ::wgpu::Instance::new(
            ::wgpu::InstanceDescriptor::new_without_display_handle_from_env(),
        );
        let options = ::wgpu::RequestAdapterOptions {
            power_preference: ::wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        let adapter = at_once(instance.request_adapter(&options))
            .ok_or_else(|| unavailable(&"it did not answer"))?
            .map_err(|error| unavailable(&error))?;
        let descriptor = ::wgpu::DeviceDescriptor {
            label: Some("graph-capture"),
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let (device, queue) = at_once(adapter.request_device(&descriptor))
            .ok_or_else(|| unavailable(&"its adapter did not answer"))?
            .map_err(|error| unavailable(&error))?;
        let made = Self::adopt(device, queue);
        // Weak, since the device keeps the callback and the core the device.
        let core = Arc::downgrade(made.core());
        made.core()
            .device
            .set_device_lost_callback(move |reason, message| {
                if let Some(core) = core.upgrade() {
                    core.note_lost(&format!("{reason:?} {message}"));
                }
            });
        made.core().watch();
        Ok(made)
    }

    /// A new stream.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn stream(&self) -> Result<Stream<NoCapture, Self>, Error> {
        Stream::on(self)
    }

    /// The capture phases of all streams of this device.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        self.shared.captures.status()
    }

    /// Where the memory of this device is (rule M7), adopted buffers included.
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

    /// Lets waits of this device (`synchronize`, `read`, `graph.read`) take at most so long, before
    /// they return [`Error::TimedOut`]. At first it is ten minutes.
    pub fn set_longest_wait(&self, longest: Duration) {
        self.core().set_longest_wait(longest);
    }

    /// The device is lost: every later call says so, with [`Error::DeviceLost`]. For the device lost
    /// callback of a device that was adopted.
    pub fn note_lost(&self, reason: &str) {
        self.core().note_lost(reason);
    }

    /// The device, as wgpu has it.
    #[must_use]
    pub fn raw_device(&self) -> &::wgpu::Device {
        &self.core().device
    }

    /// Its queue. What is submitted to it runs in the order of the calls, those of the streams among them.
    #[must_use]
    pub fn raw_queue(&self) -> &::wgpu::Queue {
        &self.core().queue
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.shared.core
    }

    pub(super) fn adopted(&self) -> &Mutex<Adopted> {
        &self.shared.adopted
    }

    pub(super) fn device_captures(&self) -> &DeviceCaptures<Self> {
        &self.shared.captures
    }
}

impl fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wgpu").field(self.status()).finish()
    }
}

/// A window is memory of ours, and closes on any thread.
impl EndsAnywhere for Wgpu {}

/// Whether the two are one device. Devices of two instances may compare equal, so equal ones are asked
/// whose error scope catches an error of one of them. Lost ones have none, and are all alike.
fn is_same_device(ours: &Core, theirs: &::wgpu::Device) -> bool {
    if ours.device != *theirs {
        return false;
    }
    let outer = theirs.push_error_scope(ErrorFilter::Validation);
    let inner = ours.device.push_error_scope(ErrorFilter::Validation);
    // A buffer for nothing is an error.
    drop(theirs.create_buffer(&BufferDescriptor {
        label: None,
        size: 4,
        usage: BufferUsages::empty(),
        mapped_at_creation: false,
    }));
    let caught = |scope| at_once(scope).flatten().is_some();
    let (by_ours, by_theirs) = (caught(inner.pop()), caught(outer.pop()));
    by_ours || (!by_theirs && ours.probe().is_err())
}

/// What one stream has given to the queue.
pub(super) struct Given {
    pub(super) core: Arc<Core>,
    latest: Mutex<Latest>,
}

#[derive(Clone, Default)]
struct Latest {
    submitted: Option<SubmissionIndex>,
    /// So many bytes of writes have been given since, which the queue keeps until the next submission,
    /// anybody's.
    written: u64,
}

impl Given {
    /// Submits work of the stream's.
    ///
    /// # Errors
    /// As [`Core::submit`].
    pub(super) fn submit(
        &self,
        call: &'static str,
        encode: impl FnOnce() -> Result<Option<CommandBuffer>, Error>,
    ) -> Result<SubmissionIndex, Error> {
        let point = self.core.submit(call, encode)?;
        *lock(&self.latest) = Latest {
            submitted: Some(point.clone()),
            written: 0,
        };
        Ok(point)
    }

    /// A write of so many bytes was given to the queue. Many are submitted, since until then the queue
    /// keeps memory for them all.
    ///
    /// # Errors
    /// As [`Core::submit`].
    pub(super) fn note_write(&self, bytes: u64) -> Result<(), Error> {
        const MOST: u64 = 16 << 20;
        let written = {
            let mut latest = lock(&self.latest);
            latest.written = latest.written.saturating_add(bytes);
            latest.written
        };
        if written >= MOST {
            self.submit("write", || Ok(None))?;
        }
        Ok(())
    }

    /// The point behind all of it; none, where nothing was given.
    ///
    /// # Errors
    /// As [`Core::submit`].
    pub(super) fn mark(&self) -> Result<Option<SubmissionIndex>, Error> {
        self.core.check_there()?;
        let Latest { submitted, written } = lock(&self.latest).clone();
        if written > 0 {
            return self.submit("mark", || Ok(None)).map(Some);
        }
        Ok(submitted)
    }
}

/// A stream: what it has given to the queue, and what its open window has recorded.
pub struct Driver {
    given: Arc<Given>,
    window: RefCell<Option<Recorded>>,
}

static_assertions::assert_impl_all!(Driver: Send);

impl Driver {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self {
            given: Arc::new(Given {
                core: Arc::clone(core),
                latest: Mutex::default(),
            }),
            window: RefCell::new(None),
        }
    }

    pub(super) fn core(&self) -> &Core {
        &self.given.core
    }

    pub(super) fn given(&self) -> &Arc<Given> {
        &self.given
    }

    pub(super) fn open_window(&self) {
        self.window.replace(Some(Recorded::default()));
    }

    /// Closes the window and hands out what was recorded.
    pub(super) fn close_window(&self) -> Option<Recorded> {
        self.window.take()
    }

    pub(super) fn in_window(&self) -> bool {
        self.window.borrow().is_some()
    }

    /// What the open window has recorded, to add to.
    pub(super) fn recorded<R>(&self, add: impl FnOnce(&mut Recorded) -> R) -> Option<R> {
        self.window.borrow_mut().as_mut().map(add)
    }
}
