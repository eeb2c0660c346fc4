//! Graphs as the driver captured them, and as it launches them.
#![allow(unsafe_code)] // Calls of the driver, and `Send` for its handles.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphInstantiateResult,
    CUgraphNode, CUgraphNodeType,
};

use crate::error::Error;

use super::call::{check, make};
use super::context::{Context, Loss};
use super::staging::Staged;
use super::stream::{Functions, RawStream, Window, node_count};

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

impl Recorded {
    pub(super) fn new(captured: Captured, window: Window) -> Self {
        Self { captured, window }
    }

    /// Makes it executable, and sends it to the device by way of `stream`.
    pub(super) fn seal(self, stream: &RawStream) -> Result<Executable, Error> {
        let Self { captured, window } = self;
        let context = Arc::clone(&captured.context);
        context.bind()?;
        inspect(&captured, &window)?;
        let handle = context.apart(|| instantiate(&captured))?;
        let executable = Executable {
            context,
            handle,
            _staged: window.staged,
            _functions: window.functions,
        };
        // A graph that is not there yet is sent by its first replay, which then takes longer.
        let _ = executable.context.apart(|| {
            // SAFETY: both are live.
            check("cuGraphUpload", unsafe {
                sys::cuGraphUpload(handle, stream.handle())
            })
        });
        Ok(executable)
    }
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

impl Executable {
    #[inline]
    pub(super) fn launch(&mut self, stream: &RawStream) -> Result<(), Error> {
        self.context.bound("cuGraphLaunch", || {
            // SAFETY: both are live, and `&mut` keeps other launches of it away. What it uses is kept by
            // the graph, which outlives what is in flight.
            unsafe { sys::cuGraphLaunch(self.handle, stream.handle()) }
        })
    }
}

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
        let memory = [
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC as u32,
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE as u32,
        ];
        if memory.contains(&kind_of(*node)?) {
            return Err(Unexpected::Memory { index }.into());
        }
    }
    Ok(())
}

/// The number of a [`CUgraphNodeType`], or one that only a newer driver knows, which is none.
fn kind_of(node: CUgraphNode) -> Result<u32, Error> {
    let mut kind = 0u32;
    // SAFETY: the node is of a live graph, and it writes a number of 32 bits there, which nobody takes for
    // one of the enum's.
    check("cuGraphNodeGetType", unsafe {
        sys::cuGraphNodeGetType(node, (&raw mut kind).cast())
    })?;
    Ok(kind)
}

/// The name of a number of the driver's, where the bindings have one.
fn name_of<T: Copy + fmt::Debug>(known: &[T], number_of: fn(T) -> u32, number: u32) -> String {
    let known = known.iter().find(|known| number_of(**known) == number);
    known.map_or_else(|| number.to_string(), |known| format!("{known:?}"))
}

fn kind_name(kind: u32) -> String {
    use CUgraphNodeType::*;
    let known = [
        CU_GRAPH_NODE_TYPE_KERNEL,
        CU_GRAPH_NODE_TYPE_MEMCPY,
        CU_GRAPH_NODE_TYPE_MEMSET,
        CU_GRAPH_NODE_TYPE_HOST,
        CU_GRAPH_NODE_TYPE_GRAPH,
        CU_GRAPH_NODE_TYPE_EMPTY,
        CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        CU_GRAPH_NODE_TYPE_EVENT_RECORD,
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL,
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT,
        CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        CU_GRAPH_NODE_TYPE_MEM_FREE,
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
    ];
    name_of(&known, |kind| kind as u32, kind)
}

fn result_name(result: u32) -> String {
    use CUgraphInstantiateResult::*;
    let known = [
        CUDA_GRAPH_INSTANTIATE_SUCCESS,
        CUDA_GRAPH_INSTANTIATE_ERROR,
        CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
        CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED,
        CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
    ];
    name_of(&known, |result| result as u32, result)
}

fn instantiate(captured: &Captured) -> Result<CUgraphExec, Error> {
    let mut parameters = MaybeUninit::new(CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags: 0,
        hUploadStream: null_mut(),
        hErrNode_out: null_mut(),
        result_out: CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
    });
    let parameters = parameters.as_mut_ptr();
    let made = make(
        "cuGraphInstantiateWithParams",
        null_mut(),
        // SAFETY: the graph is live, and it writes a handle and its reasons there.
        |handle| unsafe { sys::cuGraphInstantiateWithParams(handle, captured.graph, parameters) },
        |handle| drop(destroy(handle)),
    );
    made.map_err(|refused| {
        // SAFETY: both were there before the call. The reason is read as the number that it is: a driver that
        // is newer than the enum may have written one that is none of its values.
        let (node, result) = unsafe {
            let result = (&raw const (*parameters).result_out).cast::<u32>();
            ((*parameters).hErrNode_out, result.read())
        };
        let success = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS as u32;
        if result == success && node.is_null() {
            return refused;
        }
        let index_of = || {
            let nodes = captured.nodes(node_count(captured.graph).ok()?).ok()?;
            nodes.iter().position(|other| *other == node)
        };
        let blamed = !node.is_null();
        Unexpected::Refused {
            result,
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
        result: u32,
        node: Option<u32>,
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
                write!(f, "the driver says {}", result_name(*result))?;
                if let Some(node) = node {
                    write!(f, " of a node of kind {}", kind_name(*node))?;
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
