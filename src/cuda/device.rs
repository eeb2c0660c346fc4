//! CUDA devices: opened, or adopted with a context of the program's.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaContext, CudaStream};

use crate::backend::EndsAnywhere;
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::DeviceMemory;
use crate::phase::NoCapture;
use crate::record::CaptureStatus;
use crate::stream::Stream;

use super::context::{Context, Lost};
use super::library::{find, unavailable};
use super::mode::{Mode, Relaxed, ThreadLocal};
use super::staging::Shelf;
use super::stream::{Driver, RawStream};

/// A CUDA device: a context, and what this crate keeps for it. A clone is the same device, and so is
/// the device of the same context, however often it is opened or adopted (rule L13), as long as it is there:
/// with any clone or stream of it. Opened when all of those are gone, it is another device, to which the
/// buffers and graphs of the first are foreign; so keep a clone with them.
///
/// Calls make the context current on their thread, and leave it so. While a window is open, recorded
/// launches, and replays, take it to be so still; should one be refused because the program has made
/// another context current meanwhile, it is made again.
pub struct Cuda<M: Mode = ThreadLocal> {
    shared: Arc<Shared<M>>,
}

struct Shared<M: Mode> {
    captures: DeviceCaptures<Cuda<M>>,
    context: Arc<Context>,
}

static_assertions::assert_impl_all!(Cuda: Clone, Send, Sync);

/// Where the memory of a device is, and what its driver failed to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaMemory {
    /// The memory of the device.
    pub device: DeviceMemory,
    /// Bytes of pinned host memory: what graphs write from, and what carries writes and reads.
    pub pinned: usize,
    /// What could not be destroyed.
    pub lost: Lost,
}

impl Cuda<ThreadLocal> {
    /// The device of that ordinal, in its primary context.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if there is no driver, no such device, or its context is open in the
    /// other mode.
    pub fn new(ordinal: usize) -> Result<Self, Error> {
        open(ordinal)
    }

    /// The device of a context that the program has.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn adopt(context: Arc<CudaContext>) -> Result<Self, Error> {
        adopt(context)
    }
}

impl Cuda<Relaxed> {
    /// As [`Cuda::new`], with captures that may change their thread.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn relaxed(ordinal: usize) -> Result<Self, Error> {
        open(ordinal)
    }

    /// As [`Cuda::adopt`], with captures that may change their thread.
    ///
    /// # Errors
    /// As [`Cuda::new`].
    pub fn adopt_relaxed(context: Arc<CudaContext>) -> Result<Self, Error> {
        adopt(context)
    }
}

impl<M: Mode> Cuda<M> {
    /// A new stream, which does not wait for the legacy stream.
    ///
    /// # Errors
    /// The driver's refusal.
    pub fn stream(&self) -> Result<Stream<NoCapture, Self>, Error> {
        Stream::on(self)
    }

    /// A stream over one that the program has. Whatever the program submits to it while a window is open
    /// is found when the window closes, and the recording is refused.
    ///
    /// # Errors
    /// [`Error::BadStream`] if it is the legacy or the per-thread stream, of another context, or in a
    /// capture; or the driver's refusal.
    pub fn adopt_stream(&self, stream: Arc<CudaStream>) -> Result<Stream<NoCapture, Self>, Error> {
        let why = match stream.cu_stream() as usize {
            0 | 1 => Some(
                "CUDA captures nothing on the legacy stream, which `default_stream` is; make one by \
                 `CudaContext::new_stream`",
            ),
            2 => Some(
                "the per-thread stream is another one on each thread; make one by `CudaContext::new_stream`",
            ),
            _ if stream.context().cu_ctx() != self.context().cu_ctx() => {
                Some("it is of another context than the device; use the device of its context")
            }
            _ => None,
        };
        let refuse = |why: &str| Error::BadStream { why: why.into() };
        if let Some(why) = why {
            return Err(refuse(why));
        }
        let raw = RawStream::adopt(&self.shared.context, stream);
        if raw.is_capturing()? {
            return Err(refuse("it is in a capture already; end that first"));
        }
        Ok(Stream::over(self, Driver::new(raw)))
    }

    /// The context, to load modules in, and for `cudarc`'s own calls.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        self.shared.context.cuda()
    }

    /// The capture phases of all streams of this device.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        self.shared.captures.status()
    }

    /// Where the memory of this device is (rule M7), and what was lost of other objects.
    #[must_use]
    pub fn memory(&self) -> CudaMemory {
        CudaMemory {
            device: self.shared.captures.memory(),
            pinned: self.shared.context.shelf.pinned(),
            lost: self.shared.context.lost(),
        }
    }

    /// Gives the pool's free memory back, and pinned memory that is free.
    ///
    /// # Errors
    /// [`Error::TrimWhileRecording`] while any stream of this device records.
    pub fn trim(&self) -> Result<(), Error> {
        self.shared.captures.trim()?;
        Shelf::shed(&self.shared.context, 0);
        Ok(())
    }

    pub(super) fn device_captures(&self) -> &DeviceCaptures<Self> {
        &self.shared.captures
    }

    pub(super) fn shared_context(&self) -> &Arc<Context> {
        &self.shared.context
    }
}

fn open<M: Mode>(ordinal: usize) -> Result<Cuda<M>, Error> {
    find()?;
    let context = CudaContext::new(ordinal).map_err(|refused| {
        unavailable(format!(
            "the CUDA driver does not open device {ordinal}: {refused}; ask for one that it has"
        ))
    })?;
    adopt(context)
}

/// The device of a context, whoever has opened it before.
fn adopt<M: Mode>(context: Arc<CudaContext>) -> Result<Cuda<M>, Error> {
    // Also where the program's own `cudarc` has opened the driver: it may lack what is used here.
    find()?;
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    devices.retain(|device| device.shared.strong_count() > 0);
    let key = context.cu_ctx() as usize;
    let known = devices.iter().filter(|device| device.context == key);
    if let Some(known) = known.filter_map(|device| device.shared.upgrade()).next() {
        let shared = known.downcast::<Shared<M>>().map_err(|_| {
            unavailable(
                "this context is open in the other capture mode; use one mode for a context, or drop the \
                 other device and its streams first"
                    .into(),
            )
        })?;
        return Ok(Cuda { shared });
    }
    let shared = Arc::new(Shared {
        captures: DeviceCaptures::new(),
        context: Context::new(context),
    });
    let all: Arc<dyn Any + Send + Sync> = shared.clone();
    devices.push(Known {
        context: key,
        shared: Arc::downgrade(&all),
    });
    Ok(Cuda { shared })
}

/// A device that is open. It keeps its context, so no other can be at the same address.
struct Known {
    context: usize,
    shared: Weak<dyn Any + Send + Sync>,
}

static DEVICES: Mutex<Vec<Known>> = Mutex::new(Vec::new());

impl<M: Mode> Clone for Cuda<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<M: Mode> fmt::Debug for Cuda<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cuda").field(self.status()).finish()
    }
}

/// In relaxed mode the driver ends a capture on any thread.
impl EndsAnywhere for Cuda<Relaxed> {}
