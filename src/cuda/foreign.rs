//! Work that other libraries submit: cuBLAS, cuDNN, the program's own wrappers.
#![allow(unsafe_code)] // The raw stream is handed out.

use std::ptr::null_mut;
use std::sync::Arc;

use arrayvec::ArrayVec;
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{self, CUdeviceptr, CUgraph, CUstreamCaptureStatus};

use crate::access::Accesses;
use crate::error::Error;
use crate::trace::{Name, NodeKind, no_kernel};

use super::Commands;
use super::context::Context;
use super::mode::Mode;
use super::stream::{Driver, node_count};
use super::transitions::address;

impl<M: Mode> Commands<M> {
    /// Hands out the stream, for another library to submit work to it: as one command, which is recorded in
    /// a window.
    ///
    /// `submit` gets the stream, and the addresses of the memory of `accesses`, in their order. `values` is
    /// what makes it another command besides its name and accesses: shapes, scalars.
    ///
    /// It costs six calls of the driver in a window, and one for each node of the graph when it closes, to
    /// see that nobody allocated. Of what was submitted, the comparison of the runs sees only how this
    /// command is declared.
    ///
    /// # Safety
    /// As for [`launch`](Self::launch), of all that `submit` submits; and it
    ///
    /// * submits to this stream alone, or to streams that it forks from it and joins again;
    /// * in a window neither waits, nor allocates or frees, and no destructor does;
    /// * keeps what the work uses, other than the accesses, by [`keep`](Self::keep): workspaces, host memory
    ///   that is read or written, handles of libraries;
    /// * does not keep the stream: it ends with the call.
    ///
    /// # Errors
    /// [`Error::BadLaunch`] in a window of a context whose slices are tracked by events, for those would
    /// break it; what `submit` returns; [`Error::Aliased`], [`Error::OtherDevice`], [`Error::Marked`]; or
    /// the driver's.
    #[track_caller]
    pub unsafe fn foreign<A: Accesses<super::Cuda<M>>>(
        &self,
        name: impl Into<Name>,
        values: &[u8],
        accesses: A,
        submit: impl FnOnce(&Arc<CudaStream>, &[CUdeviceptr]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (kind, name) = (NodeKind::RawLaunch, name.into());
        self.launch_over(kind, name, no_kernel(), values, &accesses, |call, uses| {
            let addresses: ArrayVec<CUdeviceptr, 8> =
                uses.iter().map(|used| address(used.span)).collect();
            let driver = call.driver();
            if call.is_recording() {
                recorded(driver, |stream| submit(stream, &addresses))
            } else {
                driver.context().bind()?;
                handed_out(driver, |stream| submit(stream, &addresses))
            }
        })
    }
}

/// Lends the stream to code of somebody else's.
fn handed_out(
    driver: &Driver,
    submit: impl FnOnce(&Arc<CudaStream>) -> Result<(), Error>,
) -> Result<(), Error> {
    let handle = driver.stream().handle();
    // SAFETY: the stream is live as long as the wrapper, which the caller has promised not to keep.
    let stream = unsafe { driver.context().cuda().wrap_borrowed_stream(handle) };
    let submitted = submit(&stream);
    Context::forget_bound();
    submitted
}

/// As [`handed_out`], in a window: counts the nodes that come of it.
fn recorded(
    driver: &Driver,
    submit: impl FnOnce(&Arc<CudaStream>) -> Result<(), Error>,
) -> Result<(), Error> {
    if driver.context().cuda().is_managing_stream_synchronization() {
        return Err(Error::BadLaunch {
            name: "foreign".into(),
            why: "cudarc tracks the slices of this context by events, which would break the window; call \
                  `CudaContext::disable_event_tracking` before the slices are made"
                .into(),
            at: None,
        });
    }
    driver.context().bind()?;
    let before = nodes(driver)?;
    handed_out(driver, submit)?;
    driver.context().bind()?;
    let after = nodes(driver)?;
    if let Some(window) = &mut *driver.window.borrow_mut() {
        let more = after.saturating_sub(before);
        window.nodes = window.nodes.saturating_add(more);
        window.foreign = true;
    }
    Ok(())
}

/// How many nodes the open capture has.
fn nodes(driver: &Driver) -> Result<usize, Error> {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let mut graph: CUgraph = null_mut();
    // SAFETY: the stream is live, it writes where it is told to, and the other places may be null.
    super::call::check("cuStreamGetCaptureInfo_v2", unsafe {
        sys::cuStreamGetCaptureInfo_v2(
            driver.stream().handle(),
            &mut status,
            null_mut(),
            &mut graph,
            null_mut(),
            null_mut(),
        )
    })?;
    if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
        return Err(super::call::refused(
            "cuStreamGetCaptureInfo_v2",
            sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        ));
    }
    node_count(graph)
}
