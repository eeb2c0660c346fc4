//! [`Backend`] for CUDA: transitions, waits and memory.
#![allow(unsafe_code)] // Calls of the driver.

use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{
    self, CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphInstantiateResult,
    CUgraphNode, CUgraphNodeType,
};

use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::Span;

use super::Cuda;
use super::call::{check, make};
use super::context::{Context, Loss};
use super::memory::Memory;
use super::mode::{Mode, Sealed};
use super::staging::{Shelf, Staged, room};
use super::stream::{Driver, Functions, Point, RawStream, Timeline, WarmUp, Window, node_count};

/// A graph as the driver captured it.
pub(super) struct Captured {
    context: Arc<Context>,
    graph: CUgraph,
}

impl Captured {
    pub(super) fn new(context: &Arc<Context>, graph: CUgraph) -> Self {
        Self {
            context: Arc::clone(context),
            graph,
        }
    }

    fn nodes(&self, count: usize) -> Result<Vec<CUgraphNode>, Error> {
        let mut nodes = vec![null_mut(); count];
        let mut found = count;
        // SAFETY: the graph is live, and there is room for `found` handles.
        check("cuGraphGetNodes", unsafe {
            sys::cuGraphGetNodes(self.graph, nodes.as_mut_ptr(), &mut found)
        })?;
        nodes.truncate(found);
        Ok(nodes)
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if self.graph.is_null() {
            return;
        }
        let _counted = self.context.destroy(Loss::Graph, || {
            // SAFETY: the capture gave it, and it is destroyed once.
            check("cuGraphDestroy", unsafe { sys::cuGraphDestroy(self.graph) })
        });
    }
}

/// What a window recorded: the driver's graph, and what that uses besides device memory.
pub struct Recorded {
    captured: Captured,
    window: Window,
}

/// A sealed graph.
pub struct Executable {
    context: Arc<Context>,
    handle: CUgraphExec,
    // Behind the handle, which uses them.
    _staged: Option<Staged>,
    _functions: Functions,
}

// SAFETY: CUDA's handles may be used on any thread, by one at a time: `replay` takes it mutably.
unsafe impl Send for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        let _counted = self
            .context
            .destroy(Loss::Executable, || destroy(self.handle));
    }
}

fn destroy(executable: CUgraphExec) -> Result<(), Error> {
    // SAFETY: it was instantiated, and is destroyed once; D: a launch in flight is completed.
    check("cuGraphExecDestroy", unsafe {
        sys::cuGraphExecDestroy(executable)
    })
}

/// A copy to the host that was submitted.
pub struct Fetched(Option<Staged>);

impl Drop for Fetched {
    fn drop(&mut self) {
        // It was not landed, so nobody knows whether the device is done with it.
        if let Some(staged) = self.0.take() {
            staged.lose();
        }
    }
}

impl<M: Mode> Backend for Cuda<M> {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Recorded;
    type Executable = Executable;
    type Timeline = Timeline;
    type Point = Point;
    type Fetched = Fetched;

    const ONE_QUEUE: bool = false;
    const PARTS_MEMORY: bool = true;

    fn captures(&self) -> &DeviceCaptures<Self> {
        self.device_captures()
    }

    fn open(&self) -> Result<Driver, Error> {
        RawStream::create(self.shared_context()).map(Driver::new)
    }

    fn prepare(t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        if driver.stream().is_adopted() && driver.stream().is_capturing()? {
            return Err(Error::BadStream {
                why: "it is in a capture of the program's; end that first".into(),
            });
        }
        driver.warm_up.replace(WarmUp {
            runs: true,
            ..WarmUp::default()
        });
        Ok(())
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        driver.context().bind()?;
        let writes = {
            let mut warm_up = driver.warm_up.borrow_mut();
            warm_up.runs = false;
            std::mem::take(&mut warm_up.writes)
        };
        let staged = match room(writes.into_iter()) {
            0 => None,
            bytes => Some(Staged::new(driver.context(), bytes)?),
        };
        driver.open();
        // SAFETY: the stream is live, and the context current.
        check("cuStreamBeginCapture_v2", unsafe {
            sys::cuStreamBeginCapture_v2(driver.stream().handle(), <M as Sealed>::MODE)
        })?;
        driver.window.replace(Some(Window {
            staged,
            foreign: driver.stream().is_adopted(),
            ..Window::default()
        }));
        Ok(())
    }

    fn close(t: Transition<'_, Self>) -> Result<Recorded, Error> {
        let driver = t.driver();
        // What the program gave goes last, outside the capture.
        let _warm_up = driver.warm_up.take();
        let window = driver.window.take().unwrap_or_default();
        let captured = driver.stream().end_capture()?;
        driver.closed();
        Ok(Recorded { captured, window })
    }

    fn seal(t: Transition<'_, Self>, recorded: Recorded) -> Result<Executable, Error> {
        let context = t.driver().context();
        context.bind()?;
        let Recorded { captured, window } = recorded;
        inspect(&captured, &window)?;
        let handle = context.apart(|| instantiate(&captured))?;
        let executable = Executable {
            context: Arc::clone(context),
            handle,
            _staged: window.staged,
            _functions: window.functions,
        };
        // A graph that is not there yet is sent by its first replay, which then takes longer.
        let _ = context.apart(|| {
            // SAFETY: both are live.
            check("cuGraphUpload", unsafe {
                sys::cuGraphUpload(handle, t.driver().stream().handle())
            })
        });
        Ok(executable)
    }

    fn abort(t: Transition<'_, Self>) -> Option<Recorded> {
        let driver = t.driver();
        // What the program gave goes last, outside the capture.
        let _warm_up = driver.warm_up.take();
        let window = driver.window.take();
        if !driver.in_window() {
            return None;
        }
        let captured = driver.stream().end_capture().ok()?;
        driver.closed();
        Some(Recorded {
            captured,
            window: window.unwrap_or_default(),
        })
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().in_window()
    }

    fn replay(executable: &mut Executable, t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        driver.context().bound("cuGraphLaunch", || {
            // SAFETY: both are live, and `&mut` keeps other launches of it away. What it uses is kept by
            // the graph, which outlives what is in flight.
            unsafe { sys::cuGraphLaunch(executable.handle, driver.stream().handle()) }
        })
    }

    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error> {
        t.driver().stream().synchronize()?;
        waited(&t);
        Ok(())
    }

    fn fetch(call: Call<'_, Self>, from: Span<'_, Self>) -> Result<Fetched, Error> {
        let driver = call.driver();
        driver.context().bind()?;
        let (bytes, address) = (from.range().len(), address(from));
        let staged = Staged::new(driver.context(), bytes)?;
        // SAFETY: the bytes lie in live memory, which the submitter keeps; the block is as long, and is
        // nobody else's until the stream has been waited for.
        let copied = check("cuMemcpyDtoHAsync_v2", unsafe {
            sys::cuMemcpyDtoHAsync_v2(staged.target(), address, bytes, driver.stream().handle())
        });
        if let Err(refused) = copied {
            // It may have been submitted all the same.
            driver.writes.borrow_mut().hold(staged);
            return Err(refused);
        }
        Ok(Fetched(Some(staged)))
    }

    fn land(t: Transition<'_, Self>, mut fetched: Fetched, into: &mut [u8]) -> Result<(), Error> {
        let Some(staged) = fetched.0.take() else {
            return Ok(());
        };
        if let Err(failed) = t.driver().stream().synchronize() {
            t.driver().writes.borrow_mut().hold(staged);
            return Err(failed);
        }
        staged.read(into);
        drop(staged);
        waited(&t);
        Ok(())
    }

    fn timeline(driver: &Driver) -> Timeline {
        Timeline(Arc::clone(driver.stream()))
    }

    fn mark(timeline: &Timeline) -> Result<Point, Error> {
        timeline.0.mark()
    }

    fn follow(call: Call<'_, Self>, point: &Point) -> Result<(), Error> {
        call.driver().stream().follow(point)
    }

    fn is_reached(point: &Point) -> Result<bool, Error> {
        point.is_reached()
    }

    fn wait(point: &Point, timeout: Option<Duration>) -> Result<bool, Error> {
        point.wait(timeout)
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        Memory::allocate(self.shared_context(), bytes)
    }

    fn free(memory: Memory) -> Result<(), Error> {
        memory.free()
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let driver = call.driver();
        put(driver, call.is_recording(), address(to), bytes)
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let (source, target, bytes) = (address(from), address(to), from.range().len());
        copy(call.driver(), call.is_recording(), source, target, bytes)
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let (driver, recording) = (call.driver(), call.is_recording());
        let (start, bytes) = (address(to), to.range().len());
        if let Some(value) = Value::of(pattern) {
            return value.fill(driver, recording, start, bytes);
        }
        // The device repeats values of one, two and four bytes. Of others the first is written, and then
        // what is there is doubled.
        put(driver, recording, start, pattern)?;
        let mut done = pattern.len();
        while done < bytes {
            let more = done.min(bytes.saturating_sub(done));
            let target = start.saturating_add(done as u64);
            copy(driver, recording, start, target, more)?;
            done = done.saturating_add(more);
        }
        Ok(())
    }
}

/// Where the bytes of a span begin.
#[inline]
pub(super) fn address<M: Mode>(span: Span<'_, Cuda<M>>) -> u64 {
    // A span lies in its memory.
    span.memory()
        .address()
        .wrapping_add(span.range().start as u64)
}

/// The driver has been waited for: outside windows, so pinned memory may go.
fn waited<M: Mode>(t: &Transition<'_, Cuda<M>>) {
    t.driver().done();
    if !t.device().status().any_recording() {
        Shelf::tidy(t.driver().context());
    }
}

/// Copies bytes of the host to the device.
fn put(driver: &Driver, recording: bool, to: u64, bytes: &[u8]) -> Result<(), Error> {
    if !recording {
        driver.context().bind()?;
        let mut warm_up = driver.warm_up.borrow_mut();
        if warm_up.runs {
            warm_up.writes.push(bytes.len());
        }
        drop(warm_up);
        let mut writes = driver.writes.borrow_mut();
        return writes.write(driver.stream(), to, bytes);
    }
    let place = {
        let mut window = driver.window.borrow_mut();
        let staged = window.as_mut().and_then(|window| window.staged.as_mut());
        // The warm-up wrote as much, or the crate would have refused the command.
        staged.and_then(|staged| staged.put(bytes))
    };
    let place = place.ok_or_else(|| Error::out_of_memory(bytes.len()))?;
    driver.submit(true, "cuMemcpyHtoDAsync_v2", |stream| {
        // SAFETY: the target lies in memory that the graph keeps, and the bytes in a block that it keeps.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, place, bytes.len(), stream) }
    })
}

fn copy(driver: &Driver, recording: bool, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
    driver.submit(recording, "cuMemcpyDtoDAsync_v2", |stream| {
        // SAFETY: both lie in live memory, which stays until the work is done, and do not overlap.
        unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream) }
    })
}

/// A value that the device repeats by itself.
enum Value {
    Byte(u8),
    Short(u16),
    Word(u32),
}

impl Value {
    fn of(pattern: &[u8]) -> Option<Self> {
        if let Some((&first, rest)) = pattern.split_first()
            && rest.iter().all(|byte| *byte == first)
        {
            return Some(Self::Byte(first));
        }
        match *pattern {
            [a, b] => Some(Self::Short(u16::from_ne_bytes([a, b]))),
            [a, b, c, d] => Some(Self::Word(u32::from_ne_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    fn fill(&self, driver: &Driver, recording: bool, to: u64, bytes: usize) -> Result<(), Error> {
        match *self {
            Self::Byte(value) => driver.submit(recording, "cuMemsetD8Async", |stream| {
                // SAFETY: the target lies in live memory, which stays until the work is done; so below. It
                // begins at a multiple of the element, as CUDA wants it.
                unsafe { sys::cuMemsetD8Async(to, value, bytes, stream) }
            }),
            Self::Short(value) => driver.submit(recording, "cuMemsetD16Async", |stream| {
                // SAFETY: as above.
                unsafe { sys::cuMemsetD16Async(to, value, bytes / 2, stream) }
            }),
            Self::Word(value) => driver.submit(recording, "cuMemsetD32Async", |stream| {
                // SAFETY: as above.
                unsafe { sys::cuMemsetD32Async(to, value, bytes / 4, stream) }
            }),
        }
    }
}

/// Refuses a graph that is not what the commands recorded.
fn inspect(captured: &Captured, window: &Window) -> Result<(), Error> {
    let count = node_count(captured.graph)?;
    if count != window.nodes {
        return Err(Unexpected::Count {
            found: count,
            recorded: window.nodes,
        }
        .into());
    }
    // Where nobody else had the stream, the nodes are those of the commands.
    if !window.foreign {
        return Ok(());
    }
    for (index, node) in captured.nodes(count)?.iter().enumerate() {
        let kind = kind_of(*node)?;
        let memory = [
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE,
        ];
        if memory.contains(&kind) {
            return Err(Unexpected::Memory { index }.into());
        }
    }
    Ok(())
}

fn kind_of(node: CUgraphNode) -> Result<CUgraphNodeType, Error> {
    let mut kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node is of a live graph, and it writes a kind there.
    check("cuGraphNodeGetType", unsafe {
        sys::cuGraphNodeGetType(node, &mut kind)
    })?;
    Ok(kind)
}

fn instantiate(captured: &Captured) -> Result<CUgraphExec, Error> {
    let mut parameters = CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        hUploadStream: null_mut(),
        hErrNode_out: null_mut(),
        result_out: CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
    };
    let made = make(
        "cuGraphInstantiateWithParams",
        null_mut(),
        // SAFETY: the graph is live, and it writes a handle and its reasons there.
        |handle| unsafe {
            sys::cuGraphInstantiateWithParams(handle, captured.graph, &mut parameters)
        },
        |handle| drop(destroy(handle)),
    );
    made.map_err(|refused| {
        let node = parameters.hErrNode_out;
        let success = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS;
        if parameters.result_out == success && node.is_null() {
            return refused;
        }
        let index_of = || {
            let nodes = captured.nodes(node_count(captured.graph).ok()?).ok()?;
            nodes.iter().position(|other| *other == node)
        };
        let blamed = !node.is_null();
        Unexpected::Refused {
            result: parameters.result_out,
            node: blamed.then(|| kind_of(node).ok()).flatten(),
            index: blamed.then(index_of).flatten(),
            refused,
        }
        .into()
    })
}

/// What was wrong with a captured graph: the source of [`Error::Driver`].
#[derive(Debug)]
enum Unexpected {
    Count {
        found: usize,
        recorded: usize,
    },
    Memory {
        index: usize,
    },
    Refused {
        result: CUgraphInstantiateResult,
        node: Option<CUgraphNodeType>,
        index: Option<usize>,
        refused: Error,
    },
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { found, recorded } => write!(
                f,
                "the captured graph has {found} nodes, and the commands of the window make {recorded}; nobody \
                 else may submit to a stream, or unsubmit from it, while it records"
            ),
            Self::Memory { index } => write!(
                f,
                "node {index} of the captured graph allocates or frees memory, so it could not be replayed \
                 twice; allocate outside the window, or by `Commands::alloc`"
            ),
            Self::Refused {
                result,
                node,
                index,
                ..
            } => {
                write!(f, "the driver says {result:?}")?;
                if let Some(node) = node {
                    write!(f, " of a node of kind {node:?}")?;
                }
                match index {
                    Some(index) => write!(f, ", node {index} of the graph"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for Unexpected {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused { refused, .. } => Some(refused),
            _ => None,
        }
    }
}

impl From<Unexpected> for Error {
    fn from(unexpected: Unexpected) -> Self {
        let call = match &unexpected {
            Unexpected::Refused { .. } => "cuGraphInstantiateWithParams",
            _ => "end",
        };
        Self::driver(call, unexpected)
    }
}
