//! Devices and contexts.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::put;
use crate::capture::MODE;
use crate::code;
use crate::control::{call, has_pools};
use crate::state::{CURRENT, Code, Done, Sim};

/// One is enough: contexts are devices of their own to a test.
const DEVICES: c_int = 1;

fn device(ordinal: c_int) -> Done {
    if (0..DEVICES).contains(&ordinal) {
        Ok(())
    } else {
        Err(code::INVALID_DEVICE)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> Code {
    call("cuInit", |_| match flags {
        // For a test of what a driver without a device says.
        _ if std::env::var_os("CUDA_SIM_NO_DEVICE").is_some() => Err(code::NO_DEVICE),
        0 => Ok(()),
        _ => Err(code::INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(into: *mut c_int) -> Code {
    // SAFETY: as the caller promises; so below.
    call("cuDriverGetVersion", |_| unsafe { put(into, 12_000) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(into: *mut c_int) -> Code {
    // SAFETY: as above.
    call("cuDeviceGetCount", |_| unsafe { put(into, DEVICES) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(into: *mut c_int, ordinal: c_int) -> Code {
    call("cuDeviceGet", |_| {
        device(ordinal)?;
        // SAFETY: as above.
        unsafe { put(into, ordinal) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(into: *mut c_char, room: c_int, ordinal: c_int) -> Code {
    call("cuDeviceGetName", |_| {
        device(ordinal)?;
        let name = c"simulated CUDA device".to_bytes_with_nul();
        if (room as usize) < name.len() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: there is room.
        unsafe { into.copy_from_nonoverlapping(name.as_ptr().cast(), name.len()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(into: *mut usize, ordinal: c_int) -> Code {
    call("cuDeviceTotalMem_v2", |_| {
        device(ordinal)?;
        // SAFETY: as above.
        unsafe { put(into, 1 << 30) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(
    into: *mut c_int,
    attribute: c_int,
    ordinal: c_int,
) -> Code {
    call("cuDeviceGetAttribute", |_| {
        device(ordinal)?;
        let value = match attribute {
            // The most threads of a block, compute capability, memory pools.
            1 => 1024,
            75 => 8,
            76 => 0,
            115 => has_pools().into(),
            _ => return Err(code::NOT_SUPPORTED),
        };
        // SAFETY: as above.
        unsafe { put(into, value) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(into: *mut usize, ordinal: c_int) -> Code {
    call("cuDevicePrimaryCtxRetain", |sim| {
        device(ordinal)?;
        let id = match primary(sim, ordinal) {
            Some(id) => id,
            None => sim.new_context(ordinal, Some(0)),
        };
        sim.context(id)?.primary = sim.context(id)?.primary.map(|count| count + 1);
        // SAFETY: as above.
        unsafe { put(into, id) }
    })
}

fn primary(sim: &Sim, ordinal: c_int) -> Option<usize> {
    let mut contexts = sim.contexts.iter();
    let is =
        |context: &crate::state::Context| context.primary.is_some() && context.device == ordinal;
    contexts.find_map(|(id, context)| is(context).then_some(*id))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", |sim| {
        let id = primary(sim, ordinal).ok_or(code::INVALID_CONTEXT)?;
        let context = sim.context(id)?;
        context.primary = context.primary.map(|count| count - 1);
        if context.primary == Some(0) {
            destroy(sim, id);
        }
        Ok(())
    })
}

fn create(sim: &mut Sim, into: *mut usize, ordinal: c_int) -> Done {
    device(ordinal)?;
    let id = sim.new_context(ordinal, None);
    CURRENT.set(id);
    // SAFETY: as the callers promise.
    unsafe { put(into, id) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v3(
    into: *mut usize,
    _: *mut c_void,
    _: c_int,
    _: c_uint,
    ordinal: c_int,
) -> Code {
    call("cuCtxCreate_v3", |sim| create(sim, into, ordinal))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(
    into: *mut usize,
    _: *mut c_void,
    _: c_uint,
    ordinal: c_int,
) -> Code {
    call("cuCtxCreate_v4", |sim| create(sim, into, ordinal))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxDestroy_v2(context: usize) -> Code {
    call("cuCtxDestroy_v2", |sim| {
        sim.context(context)?;
        destroy(sim, context);
        Ok(())
    })
}

/// All that lives in a context goes with it (D `cuCtxDestroy`).
fn destroy(sim: &mut Sim, context: usize) {
    sim.captures.retain(|_, capture| !capture.is_in(context));
    sim.streams.retain(|_, stream| stream.context != context);
    sim.events.retain(|_, event| event.context != context);
    sim.graphs.retain(|_, graph| graph.context != context);
    sim.executables.retain(|_, graph| graph.context != context);
    let modules: Vec<_> = sim
        .modules
        .iter()
        .filter(|(_, module)| module.context == context)
        .map(|(id, _)| *id)
        .collect();
    sim.functions
        .retain(|_, function| !modules.contains(&function.module));
    sim.modules.retain(|id, _| !modules.contains(id));
    for pinned in [false, true] {
        let table = if pinned {
            &sim.pinned
        } else {
            &sim.device_memory
        };
        let addresses: Vec<_> = table
            .iter()
            .filter(|(_, allocation)| allocation.context == context)
            .map(|(address, _)| *address)
            .collect();
        for address in addresses {
            // It is in the table.
            let _ = sim.free(address, pinned);
        }
    }
    sim.contexts.remove(&context);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(into: *mut usize) -> Code {
    // SAFETY: as above.
    call("cuCtxGetCurrent", |_| unsafe { put(into, CURRENT.get()) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: usize) -> Code {
    call("cuCtxSetCurrent", |sim| {
        if context != 0 {
            sim.context(context)?;
        }
        CURRENT.set(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> Code {
    call("cuCtxSynchronize", |sim| {
        let context = sim.current()?;
        sim.whole_context(context)?;
        let streams: Vec<_> = sim
            .streams
            .iter()
            .filter(|(_, stream)| stream.context == context)
            .map(|(id, stream)| (*id, stream.submitted))
            .collect();
        streams
            .into_iter()
            .try_for_each(|(stream, place)| sim.run_to(stream, place))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuThreadExchangeStreamCaptureMode(mode: *mut u32) -> Code {
    call("cuThreadExchangeStreamCaptureMode", |_| {
        // SAFETY: the caller has put a mode there.
        let new = unsafe { mode.read() };
        if new > crate::capture::RELAXED {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: as above.
        unsafe { put(mode, MODE.replace(new)) }
    })
}
