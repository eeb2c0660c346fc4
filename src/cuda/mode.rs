//! CUDA's capture modes, as types.

use cudarc::driver::sys::CUstreamCaptureMode;

mod sealed {
    pub trait Sealed: Send + Sync + 'static {
        const MODE: super::CUstreamCaptureMode;
    }
}
pub(super) use sealed::Sealed;

/// A capture mode: [`ThreadLocal`] or [`Relaxed`].
pub trait Mode: Sealed {}

/// Captures are broken by nothing that other threads do, and end on the thread on which they began.
#[derive(Debug)]
pub enum ThreadLocal {}

/// Captures may end on another thread. CUDA forbids no call that might break them.
#[derive(Debug)]
pub enum Relaxed {}

impl Sealed for ThreadLocal {
    const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
}
impl Mode for ThreadLocal {}

impl Sealed for Relaxed {
    const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
}
impl Mode for Relaxed {}
