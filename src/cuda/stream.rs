//! Driver streams, the points in their work, and what a window gathers.
#![allow(unsafe_code)] // Calls of the driver, and `Send` for its handles.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUdeviceptr, CUevent, CUgraph, CUresult, CUstream};
use cudarc::driver::{CudaFunction, CudaStream};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::lost::keep_for_good;

use super::call::{check, make, refused};
use super::context::{Context, Loss, set_apart};
use super::graph::Captured;
use super::staging::{Staged, UnderWay};

/// A stream of the driver. Destroyed when the last that marks points in it is gone; D says that its
/// work is completed all the same.
pub(super) struct RawStream {
    context: Arc<Context>,
    handle: CUstream,
    /// The program's, where it is adopted: it is destroyed with that.
    adopted: Option<Arc<CudaStream>>,
}

// SAFETY: CUDA's streams may be used from any thread in whose context they are current, which every
// call here sees to.
unsafe impl Send for RawStream {}
// SAFETY: as above; CUDA's calls may come from several threads at once.
unsafe impl Sync for RawStream {}

impl RawStream {
    pub(super) fn create(context: &Arc<Context>) -> Result<Self, Error> {
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        context.bind()?;
        let handle = context.apart(|| {
            make(
                "cuStreamCreate",
                null_mut(),
                // SAFETY: it writes a handle there.
                |handle| unsafe { sys::cuStreamCreate(handle, flags) },
                |handle| drop(destroy(handle)),
            )
        })?;
        Ok(Self {
            context: Arc::clone(context),
            handle,
            adopted: None,
        })
    }

    pub(super) fn adopt(context: &Arc<Context>, stream: Arc<CudaStream>) -> Self {
        Self {
            context: Arc::clone(context),
            handle: stream.cu_stream(),
            adopted: Some(stream),
        }
    }

    #[inline]
    pub(super) fn handle(&self) -> CUstream {
        self.handle
    }

    #[inline]
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) fn is_adopted(&self) -> bool {
        self.adopted.is_some()
    }

    /// Whether it is in a capture, also in one that is broken.
    pub(super) fn is_capturing(&self) -> Result<bool, Error> {
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut status = none;
        self.context.bound("cuStreamIsCapturing", || {
            // SAFETY: the stream is live, and it writes a status there.
            unsafe { sys::cuStreamIsCapturing(self.handle, &mut status) }
        })?;
        Ok(status != none)
    }

    /// Ends a capture.
    pub(super) fn end_capture(&self) -> Result<Captured, Error> {
        self.context.bind()?;
        let graph = make(
            "cuStreamEndCapture",
            null_mut(),
            // SAFETY: the stream is live, and it writes a handle there.
            |graph| unsafe { sys::cuStreamEndCapture(self.handle, graph) },
            |graph| drop(Captured::new(&self.context, graph)),
        )?;
        Ok(Captured::new(&self.context, graph))
    }

    /// Marks the point behind all that was submitted so far.
    pub(super) fn mark(&self) -> Result<Point, Error> {
        self.context.bind()?;
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let event = make(
            "cuEventCreate",
            null_mut(),
            // SAFETY: it writes a handle there.
            |event| unsafe { sys::cuEventCreate(event, flags) },
            |event| drop(Point::new(&self.context, event)),
        )?;
        let point = Point::new(&self.context, event);
        // SAFETY: event and stream are live.
        check("cuEventRecord", unsafe {
            sys::cuEventRecord(event, self.handle)
        })?;
        Ok(point)
    }

    /// Has its later work wait for a point.
    pub(super) fn follow(&self, point: &Point) -> Result<(), Error> {
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT as u32;
        self.context.bound("cuStreamWaitEvent", || {
            // SAFETY: both are live.
            unsafe { sys::cuStreamWaitEvent(self.handle, point.event, flags) }
        })
    }

    pub(super) fn synchronize(&self) -> Result<(), Error> {
        self.context.bind()?;
        self.context.apart(|| {
            // SAFETY: the stream is live.
            check("cuStreamSynchronize", unsafe {
                sys::cuStreamSynchronize(self.handle)
            })
        })
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if self.adopted.is_none() {
            let _counted = self.context.destroy(Loss::Stream, || destroy(self.handle));
        }
    }
}

fn destroy(stream: CUstream) -> Result<(), Error> {
    // SAFETY: `cuStreamCreate` gave it, and it is destroyed once.
    check("cuStreamDestroy_v2", unsafe {
        sys::cuStreamDestroy_v2(stream)
    })
}

/// A point in the work of a driver stream.
pub struct Point {
    context: Arc<Context>,
    event: CUevent,
    reached: AtomicBool,
}

// SAFETY: as a stream.
unsafe impl Send for Point {}
// SAFETY: as a stream.
unsafe impl Sync for Point {}

impl Point {
    fn new(context: &Arc<Context>, event: CUevent) -> Self {
        Self {
            context: Arc::clone(context),
            event,
            reached: AtomicBool::new(false),
        }
    }

    pub(super) fn is_reached(&self) -> Result<bool, Error> {
        if self.reached.load(Ordering::Acquire) {
            return Ok(true);
        }
        self.context.bind()?;
        let reached = self.context.apart(|| {
            // SAFETY: the event is live.
            match unsafe { sys::cuEventQuery(self.event) } {
                CUresult::CUDA_SUCCESS => Ok(true),
                CUresult::CUDA_ERROR_NOT_READY => Ok(false),
                code => Err(refused("cuEventQuery", code)),
            }
        })?;
        self.reached.fetch_or(reached, Ordering::AcqRel);
        Ok(reached)
    }

    pub(super) fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let Some(timeout) = timeout else {
            self.context.bind()?;
            self.context.apart(|| {
                // SAFETY: the event is live.
                check("cuEventSynchronize", unsafe {
                    sys::cuEventSynchronize(self.event)
                })
            })?;
            self.reached.store(true, Ordering::Release);
            return Ok(true);
        };
        // CUDA has no wait with a limit: it is asked, more and more rarely.
        let begin = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            if self.is_reached()? {
                return Ok(true);
            }
            let Some(left) = timeout
                .checked_sub(begin.elapsed())
                .filter(|left| !left.is_zero())
            else {
                return Ok(false);
            };
            sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(1));
        }
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        let _counted = self.context.destroy(Loss::Event, || {
            // SAFETY: `cuEventCreate` gave it, and it is destroyed once.
            check("cuEventDestroy_v2", unsafe {
                sys::cuEventDestroy_v2(self.event)
            })
        });
    }
}

/// What marks points in the work of a driver stream.
pub struct Timeline(pub(super) Arc<RawStream>);

/// A driver stream, and what is under way on it.
pub struct Driver {
    stream: Arc<RawStream>,
    /// A capture of ours was begun and has not been seen to end.
    opened: Cell<bool>,
    pub(super) window: RefCell<Option<Window>>,
    pub(super) warm_up: RefCell<WarmUp>,
    pub(super) writes: RefCell<UnderWay>,
    /// What was launched since the stream was last waited for: its modules must stay loaded.
    functions: RefCell<Functions>,
}

static_assertions::assert_impl_all!(Driver: Send);

/// What a warm-up learns for its window.
#[derive(Default)]
pub(super) struct WarmUp {
    /// Whether one is under way.
    pub(super) runs: bool,
    /// The bytes of each of its writes, in its last pass that wrote.
    pub(super) writes: Vec<usize>,
    pub(super) pass: u64,
    /// The addresses of the slices that it was given, by the address of their `Arc`'s content; they are
    /// held, so that none can take the place of another.
    pub(super) slices: FxHashMap<usize, (CUdeviceptr, Box<dyn Send>)>,
}

impl WarmUp {
    /// Each pass begins anew.
    pub(super) fn wrote(&mut self, pass: u64, bytes: usize) {
        if std::mem::replace(&mut self.pass, pass) != pass {
            self.writes.clear();
        }
        self.writes.push(bytes);
    }
}

/// What an open window gathers for its graph.
#[derive(Default)]
pub(super) struct Window {
    /// The nodes that its commands make.
    pub(super) nodes: usize,
    /// Others had the stream in their hands: what they recorded is to be looked at.
    pub(super) foreign: bool,
    /// What the recorded writes will read.
    pub(super) staged: Option<Staged>,
    pub(super) functions: Functions,
}

/// Functions that are in use, by their handles. The last of a module unloads it, which must break no window.
#[derive(Default)]
pub(super) struct Functions {
    known: FxHashMap<usize, CudaFunction>,
    last: usize,
}

impl Functions {
    #[inline]
    fn keep(&mut self, function: &CudaFunction) {
        let key = function.cu_function() as usize;
        if self.last != key {
            self.keep_another(key, function);
        }
    }

    #[cold]
    fn keep_another(&mut self, key: usize, function: &CudaFunction) {
        self.known.entry(key).or_insert_with(|| function.clone());
        self.last = key;
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        if !self.known.is_empty() {
            let (_, _back) = set_apart();
            self.known.clear();
        }
    }
}

impl Driver {
    pub(super) fn new(stream: RawStream) -> Self {
        Self {
            stream: Arc::new(stream),
            opened: Cell::new(false),
            window: RefCell::new(None),
            warm_up: RefCell::default(),
            writes: RefCell::default(),
            functions: RefCell::default(),
        }
    }

    #[inline]
    pub(super) fn stream(&self) -> &Arc<RawStream> {
        &self.stream
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// A capture of ours is about to begin.
    pub(super) fn open(&self) {
        self.opened.set(true);
    }

    /// The driver has ended it.
    pub(super) fn closed(&self) {
        self.opened.set(false);
    }

    /// Whether the stream is in a capture of ours; where the driver does not say, it may be.
    pub(super) fn in_window(&self) -> bool {
        if self.opened.get() {
            self.opened.set(self.stream.is_capturing().unwrap_or(true));
        }
        self.opened.get()
    }

    /// Makes a call whose work goes to the stream, and counts its node in a window.
    pub(super) fn submit(
        &self,
        recording: bool,
        call: &'static str,
        run: impl Fn(CUstream) -> CUresult,
    ) -> Result<(), Error> {
        self.note(recording, |window| window.nodes += 1, || ());
        self.call(recording, call, run)
    }

    /// As [`submit`](Self::submit), for a launch: its module must stay loaded as long as it may run.
    #[inline]
    pub(super) fn launch(
        &self,
        recording: bool,
        function: &CudaFunction,
        run: impl Fn(CUstream) -> CUresult,
    ) -> Result<(), Error> {
        let in_window = |window: &mut Window| {
            window.nodes += 1;
            window.functions.keep(function);
        };
        let outside = || self.functions.borrow_mut().keep(function);
        self.note(recording, in_window, outside);
        self.call(recording, "cuLaunchKernel", run)
    }

    #[inline]
    fn note(&self, recording: bool, in_window: impl FnOnce(&mut Window), outside: impl FnOnce()) {
        if !recording {
            outside();
        } else if let Some(window) = &mut *self.window.borrow_mut() {
            in_window(window);
        }
    }

    #[inline]
    fn call(
        &self,
        recording: bool,
        call: &'static str,
        run: impl Fn(CUstream) -> CUresult,
    ) -> Result<(), Error> {
        let run = || run(self.stream.handle());
        if recording {
            return self.context().bound(call, run);
        }
        self.context().bind()?;
        check(call, run())
    }

    /// The stream has been waited for.
    pub(super) fn done(&self) {
        self.writes.borrow_mut().done(self.context());
        // The last function of a module unloads it, with nothing borrowed.
        let functions = self.functions.take();
        drop(functions);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.in_window() {
            // The crate gives up on the stream. This is the last that is tried.
            drop(self.stream.end_capture());
        }
        let under_way =
            !self.writes.borrow().is_empty() || !self.functions.borrow().known.is_empty();
        // Twice, since an error may be one of earlier work.
        let wait = || self.stream.synchronize();
        if under_way && wait().or_else(|_| wait()).is_err() {
            self.writes.borrow_mut().lose(self.context());
            keep_for_good(self.functions.take());
        }
        self.done();
    }
}

/// A handle of a graph, to be looked at.
pub(super) fn node_count(graph: CUgraph) -> Result<usize, Error> {
    let mut count = 0;
    // SAFETY: the graph is live, and it writes a count there.
    check("cuGraphGetNodes", unsafe {
        sys::cuGraphGetNodes(graph, null_mut(), &mut count)
    })?;
    Ok(count)
}
