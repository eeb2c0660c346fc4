//! Memory: allocated, copied and filled.

use std::ffi::{c_uchar, c_uint, c_ushort, c_void};

use super::put;
use crate::capture::node;
use crate::code;
use crate::control::{Kind, call};
use crate::run::{Op, Side};
use crate::state::{Code, Done, Sim};

fn allocate(sim: &mut Sim, into: *mut usize, bytes: usize, pinned: bool) -> Done {
    let context = sim.current()?;
    sim.potentially_unsafe()?;
    let address = sim.allocate(context, bytes, pinned)?;
    let kind = if pinned { Kind::Pinned } else { Kind::Memory };
    sim.count(context, kind, true);
    // SAFETY: as the callers promise.
    unsafe { put(into, address) }
}

fn free(sim: &mut Sim, address: usize, pinned: bool) -> Done {
    sim.potentially_unsafe()?;
    sim.free(address, pinned)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(into: *mut usize, bytes: usize) -> Code {
    call("cuMemAlloc_v2", |sim| allocate(sim, into, bytes, false))
}

/// Does not wait for the work that uses it, as nobody promises that it does.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: usize) -> Code {
    call("cuMemFree_v2", |sim| free(sim, address, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(into: *mut usize, bytes: usize, _: c_uint) -> Code {
    call("cuMemHostAlloc", |sim| allocate(sim, into, bytes, true))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(address: usize) -> Code {
    call("cuMemFreeHost", |sim| free(sim, address, true))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> Code {
    call("cuMemGetInfo_v2", |sim| {
        let context = sim.current()?;
        let context = sim.context(context)?;
        let most = context.limit.min(1 << 40);
        // SAFETY: as the caller promises; so below.
        unsafe {
            put(free, most.saturating_sub(context.allocated))?;
            put(total, most)
        }
    })
}

/// In a capture it is an allocation of the graph (D `cuMemAllocAsync`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(into: *mut usize, bytes: usize, stream: usize) -> Code {
    call("cuMemAllocAsync", |sim| {
        let stream = sim.stream(stream)?;
        let context = sim.streams[&stream].context;
        let captures = sim.status(stream) != 0;
        let address = sim.allocate(context, bytes.max(1), false)?;
        if captures {
            if let Some(allocation) = sim.device_memory.get_mut(&address) {
                allocation.of_graph = true;
            }
            sim.submit(stream, Op::Nothing, node::ALLOCATE)?;
        } else {
            sim.count(context, Kind::Memory, true);
        }
        // SAFETY: as above.
        unsafe { put(into, address) }
    })
}

/// D `cuMemFreeAsync`: in a capture it must be given an allocation of a graph; the code is ?.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: usize, stream: usize) -> Code {
    call("cuMemFreeAsync", |sim| {
        let stream = sim.stream(stream)?;
        let captures = sim.status(stream) != 0;
        let of_graph = sim.device_memory.get(&address).map(|a| a.of_graph);
        match (captures, of_graph) {
            (true, Some(true)) => sim.submit(stream, Op::Nothing, node::FREE),
            (false, Some(false)) => {
                let place = sim.streams[&stream].submitted;
                sim.run_to(stream, place)?;
                sim.free(address, false)
            }
            _ => Err(code::INVALID_VALUE),
        }
    })
}

fn is_pinned(sim: &Sim, address: usize, bytes: usize) -> bool {
    let before = sim.pinned.range(..=address).next_back();
    before.is_some_and(|(start, memory)| address - start + bytes <= memory.bytes())
}

/// D (API synchronization behavior): pageable memory is read before the call returns, pinned memory
/// later. In a capture both are read at the launch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: usize,
    from: *const c_void,
    bytes: usize,
    stream: usize,
) -> Code {
    call("cuMemcpyHtoDAsync_v2", |sim| {
        let stream = sim.stream(stream)?;
        let later = sim.status(stream) != 0 || is_pinned(sim, from as usize, bytes);
        let op = if later {
            Op::Copy {
                to: Side::Device(to),
                from: Side::Host(from as usize),
                bytes,
            }
        } else {
            // SAFETY: the caller gives that many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
            let bytes = bytes.into();
            Op::Put { to, bytes }
        };
        sim.submit(stream, op, node::COPY)
    })
}

/// D (API synchronization behavior): into pageable memory the copy is done when the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: usize,
    bytes: usize,
    stream: usize,
) -> Code {
    call("cuMemcpyDtoHAsync_v2", |sim| {
        let stream = sim.stream(stream)?;
        let op = Op::Copy {
            to: Side::Host(to as usize),
            from: Side::Device(from),
            bytes,
        };
        sim.submit(stream, op, node::COPY)?;
        if sim.status(stream) == 0 && !is_pinned(sim, to as usize, bytes) {
            let place = sim.streams[&stream].submitted;
            return sim.run_to(stream, place);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoDAsync_v2(
    to: usize,
    from: usize,
    bytes: usize,
    stream: usize,
) -> Code {
    call("cuMemcpyDtoDAsync_v2", |sim| {
        let stream = sim.stream(stream)?;
        let op = Op::Copy {
            to: Side::Device(to),
            from: Side::Device(from),
            bytes,
        };
        sim.submit(stream, op, node::COPY)
    })
}

fn fill(sim: &mut Sim, to: usize, value: u32, width: usize, count: usize, stream: usize) -> Done {
    let stream = sim.stream(stream)?;
    if count == 0 || !to.is_multiple_of(width) {
        return Err(code::INVALID_VALUE);
    }
    let op = Op::Fill {
        to,
        value,
        width,
        pitch: width,
        count,
    };
    sim.submit(stream, op, node::FILL)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(to: usize, value: c_uchar, count: usize, stream: usize) -> Code {
    call("cuMemsetD8Async", |sim| {
        fill(sim, to, value.into(), 1, count, stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD16Async(
    to: usize,
    value: c_ushort,
    count: usize,
    stream: usize,
) -> Code {
    call("cuMemsetD16Async", |sim| {
        fill(sim, to, value.into(), 2, count, stream)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(to: usize, value: c_uint, count: usize, stream: usize) -> Code {
    call("cuMemsetD32Async", |sim| {
        fill(sim, to, value, 4, count, stream)
    })
}
