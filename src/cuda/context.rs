//! A context, as all that lives in it needs it: to be current, and to count what could not be destroyed.
#![allow(unsafe_code)] // Calls of the driver.

use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{self, CUcontext, CUresult, CUstreamCaptureMode};

use crate::error::Error;

use super::call::{check, refused};
use super::staging::Shelf;

/// A context, and what is shared by all that lives in it. It owns none of that, and no device.
pub(super) struct Context {
    cuda: Arc<CudaContext>,
    pub(super) shelf: Shelf,
    losses: Losses,
}

/// What the driver failed to destroy, or did destroy and said that it failed: it is kept out of use for
/// good. Part of [`CudaMemory`](super::CudaMemory).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Streams.
    pub streams: usize,
    /// Events: marks in the work of a stream.
    pub events: usize,
    /// Allocations of device memory; their bytes are in [`DeviceMemory::lost`](crate::DeviceMemory::lost).
    pub allocations: usize,
    /// Allocations of pinned host memory.
    pub pinned: usize,
    /// Graphs as they were captured.
    pub graphs: usize,
    /// Graphs as they are launched.
    pub executables: usize,
}

/// What is counted in [`Lost`].
#[derive(Clone, Copy)]
pub(super) enum Loss {
    Stream,
    Event,
    Allocation,
    Pinned,
    Graph,
    Executable,
}

#[derive(Default)]
struct Losses([AtomicUsize; 6]);

thread_local! {
    /// The context that this crate made current last, if nothing has been heard since.
    static BOUND: Cell<CUcontext> = const { Cell::new(null_mut()) };
}

impl Context {
    pub(super) fn new(cuda: Arc<CudaContext>) -> Arc<Self> {
        Arc::new(Self {
            cuda,
            shelf: Shelf::default(),
            losses: Losses::default(),
        })
    }

    pub(super) fn cuda(&self) -> &Arc<CudaContext> {
        &self.cuda
    }

    /// Makes the context current on this thread.
    pub(super) fn bind(&self) -> Result<(), Error> {
        if !self.is_current()? {
            // SAFETY: `cuda` keeps the context.
            check("cuCtxSetCurrent", unsafe {
                sys::cuCtxSetCurrent(self.cuda.cu_ctx())
            })?;
        }
        BOUND.set(self.cuda.cu_ctx());
        Ok(())
    }

    fn is_current(&self) -> Result<bool, Error> {
        let mut current = null_mut();
        // SAFETY: it writes there.
        check("cuCtxGetCurrent", unsafe {
            sys::cuCtxGetCurrent(&mut current)
        })?;
        Ok(current == self.cuda.cu_ctx())
    }

    /// Code of somebody else has run, which may have made another context current.
    pub(super) fn forget_bound() {
        BOUND.set(null_mut());
    }

    /// Makes one call, and no other where the context is still current, as far as this crate knows. A
    /// call that failed because somebody else made another context current is made again.
    #[inline]
    pub(super) fn bound(
        &self,
        call: &'static str,
        mut run: impl FnMut() -> CUresult,
    ) -> Result<(), Error> {
        if BOUND.get() != self.cuda.cu_ctx() {
            self.bind()?;
        }
        match run() {
            CUresult::CUDA_SUCCESS => Ok(()),
            code => self.again(call, code, run),
        }
    }

    #[cold]
    fn again(
        &self,
        call: &'static str,
        code: CUresult,
        mut run: impl FnMut() -> CUresult,
    ) -> Result<(), Error> {
        if self.is_current().unwrap_or(true) {
            return Err(refused(call, code));
        }
        self.bind()?;
        check(call, run())
    }

    /// Runs calls that CUDA calls potentially unsafe: on a thread, or beside one, that captures, they
    /// would be refused and break the capture. They touch nothing that is captured.
    pub(super) fn apart<R>(&self, run: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
        let (exchanged, _back) = set_apart();
        exchanged?;
        run()
    }

    /// Destroys something, on whatever thread it is dropped, and counts it if that failed.
    pub(super) fn destroy(
        &self,
        loss: Loss,
        run: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        // The call may succeed where what prepares it fails.
        let _ = self.bind();
        let (_, _back) = set_apart();
        run().inspect_err(|_| self.lose(loss))
    }

    pub(super) fn lose(&self, loss: Loss) {
        if let Some(count) = self.losses.0.get(loss as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> Lost {
        let [streams, events, allocations, pinned, graphs, executables] = &self.losses.0;
        let get = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        Lost {
            streams: get(streams),
            events: get(events),
            allocations: get(allocations),
            pinned: get(pinned),
            graphs: get(graphs),
            executables: get(executables),
        }
    }

    /// Runs calls of `cudarc` that leave their errors in the context, and says what they left. What
    /// somebody else had left there stays there.
    pub(super) fn overheard<R>(
        &self,
        call: &'static str,
        run: impl FnOnce() -> R,
    ) -> Result<R, Error> {
        let earlier = self.cuda.check_err();
        let done = run();
        let left = super::call::code_of(self.cuda.check_err());
        self.cuda.record_err(earlier);
        check(call, left)?;
        Ok(done)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Nobody holds anything of it any more.
        let shelf = std::mem::take(&mut self.shelf);
        for block in shelf.into_blocks() {
            block.free(self);
        }
    }
}

/// Exchanges the capture mode of the thread for one that forbids nothing, and back when it is dropped.
pub(super) fn set_apart() -> (Result<(), Error>, Option<Back>) {
    const APART: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    let mut mode = APART;
    let exchanged = exchange(&mut mode);
    // Where nothing was exchanged there must be none: dropping it is what exchanges back.
    let changed = exchanged.is_ok() || mode != APART;
    (exchanged, changed.then(|| Back(mode)))
}

pub(super) struct Back(CUstreamCaptureMode);

impl Drop for Back {
    fn drop(&mut self) {
        // It has nothing to fail at, and nobody could be told. Where it failed without effect, the mode is
        // still in the variable.
        let mut mode = self.0;
        if exchange(&mut mode).is_err() && mode == self.0 {
            let _ = exchange(&mut mode);
        }
    }
}

fn exchange(mode: &mut CUstreamCaptureMode) -> Result<(), Error> {
    // SAFETY: it reads a mode there, and writes one.
    check("cuThreadExchangeStreamCaptureMode", unsafe {
        sys::cuThreadExchangeStreamCaptureMode(mode)
    })
}
