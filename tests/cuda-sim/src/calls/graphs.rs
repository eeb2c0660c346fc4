//! Graphs and what is made executable of them.

use std::ffi::{c_uint, c_ulonglong};
use std::sync::Arc;

use super::put;
use crate::code;
use crate::control::{Kind, UNKNOWN, call, is_newer, refused_nodes};
use crate::run::{Op, Work};
use crate::state::{Code, Done, Executable, Sim};

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
pub struct Parameters {
    flags: u64,
    upload_stream: usize,
    error_node: usize,
    result: c_uint,
}

/// The handles of a graph's nodes: of one that is there, or of one that is being captured (D
/// `cuStreamGetCaptureInfo`: the graph of a capture may be looked at).
fn nodes(sim: &Sim, graph: usize) -> Result<Vec<usize>, Code> {
    if let Some(capture) = sim.captures.get(&graph) {
        return Ok((0..capture.len()).collect());
    }
    let graph = sim.graphs.get(&graph).ok_or(code::INVALID_VALUE)?;
    Ok(graph.handles.clone())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphGetNodes(
    graph: usize,
    into: *mut usize,
    count: *mut usize,
) -> Code {
    call("cuGraphGetNodes", |sim| {
        let nodes = nodes(sim, graph)?;
        if into.is_null() {
            // SAFETY: as the caller promises; so below.
            return unsafe { put(count, nodes.len()) };
        }
        // SAFETY: `count` says how many there is room for.
        unsafe {
            let room = count.read();
            for place in 0..room {
                let node = nodes.get(place).copied().unwrap_or(0);
                into.add(place).write(node);
            }
            count.write(room.min(nodes.len()));
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphNodeGetType(node: usize, into: *mut c_uint) -> Code {
    call("cuGraphNodeGetType", |sim| {
        let kind = sim.graphs.values().find_map(|graph| {
            let place = graph.handles.iter().position(|&handle| handle == node)?;
            graph.nodes.get(place).map(|node| node.kind)
        });
        let kind = kind.ok_or(code::INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { put(into, if is_newer() { UNKNOWN } else { kind }) }
    })
}

fn instantiate(sim: &mut Sim, into: *mut usize, graph: usize) -> Done {
    let context = sim.current()?;
    sim.potentially_unsafe()?;
    let nodes = Arc::clone(&sim.graphs.get(&graph).ok_or(code::INVALID_VALUE)?.nodes);
    let id = sim.id();
    let executable = Executable {
        context,
        nodes,
        last: None,
    };
    sim.executables.insert(id, executable);
    sim.count(context, Kind::Executable, true);
    // SAFETY: as the callers promise.
    unsafe { put(into, id) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(
    into: *mut usize,
    graph: usize,
    _: c_ulonglong,
) -> Code {
    call("cuGraphInstantiateWithFlags", |sim| {
        instantiate(sim, into, graph)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphInstantiateWithParams(
    into: *mut usize,
    graph: usize,
    parameters: *mut Parameters,
) -> Code {
    call("cuGraphInstantiateWithParams", |sim| {
        let refused = sim.graphs.get(&graph).and_then(|graph| {
            let kind = refused_nodes();
            let place = graph.nodes.iter().position(|node| node.kind == kind)?;
            graph.handles.get(place).copied()
        });
        let (done, node, result) = match refused {
            // `CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED`
            Some(node) if is_newer() => (Err(code::NOT_SUPPORTED), node, UNKNOWN),
            Some(node) => (Err(code::NOT_SUPPORTED), node, 3),
            None => {
                let done = instantiate(sim, into, graph);
                (done, 0, u32::from(done.is_err()))
            }
        };
        // SAFETY: the caller has put parameters there.
        unsafe {
            (*parameters).error_node = node;
            (*parameters).result = result;
        }
        done
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphUpload(executable: usize, stream: usize) -> Code {
    call("cuGraphUpload", |sim| {
        let stream = sim.stream(stream)?;
        sim.potentially_unsafe()?;
        if !sim.executables.contains_key(&executable) {
            return Err(code::INVALID_VALUE);
        }
        sim.not_capturing(stream)?;
        sim.enqueue(stream, Op::Nothing);
        Ok(())
    })
}

/// D: behind what was submitted to the stream, and behind the graph's own last launch. Into a capture
/// it is not simulated.
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphLaunch(executable: usize, stream: usize) -> Code {
    call("cuGraphLaunch", |sim| {
        let stream = sim.stream(stream)?;
        sim.not_capturing(stream)?;
        let this = sim
            .executables
            .get(&executable)
            .ok_or(code::INVALID_VALUE)?;
        let (nodes, last) = (Arc::clone(&this.nodes), this.last);
        if let Some((other, place)) = last
            && other != stream
        {
            sim.push(stream, Work::Await(other, place));
        }
        let place = sim.enqueue(stream, Op::Graph(nodes));
        if let Some(this) = sim.executables.get_mut(&executable) {
            this.last = Some((stream, place));
        }
        Ok(())
    })
}

/// D: a launch that is in flight is completed all the same.
#[unsafe(no_mangle)]
pub extern "C" fn cuGraphExecDestroy(executable: usize) -> Code {
    call("cuGraphExecDestroy", |sim| {
        let this = sim.executables.remove(&executable);
        let context = this.ok_or(code::INVALID_VALUE)?.context;
        sim.count(context, Kind::Executable, false);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGraphDestroy(graph: usize) -> Code {
    call("cuGraphDestroy", |sim| {
        let context = sim
            .graphs
            .remove(&graph)
            .ok_or(code::INVALID_VALUE)?
            .context;
        sim.count(context, Kind::Graph, false);
        Ok(())
    })
}
