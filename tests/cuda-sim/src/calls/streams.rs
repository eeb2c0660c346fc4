//! Streams, events and captures.

use std::ffi::{c_int, c_uint};

use super::put;
use crate::code;
use crate::control::{Kind, call};
use crate::state::{Code, Event, Mark, Sim, Stream};

const NON_BLOCKING: c_uint = 1;

fn create(sim: &mut Sim, into: *mut usize, flags: c_uint) -> Result<(), Code> {
    let context = sim.current()?;
    sim.potentially_unsafe()?;
    let id = sim.id();
    sim.streams
        .insert(id, Stream::new(context, flags & NON_BLOCKING == 0));
    sim.count(context, Kind::Stream, true);
    // SAFETY: as the callers promise.
    unsafe { put(into, id) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(into: *mut usize, flags: c_uint) -> Code {
    call("cuStreamCreate", |sim| create(sim, into, flags))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(
    into: *mut usize,
    flags: c_uint,
    _: c_int,
) -> Code {
    call("cuStreamCreateWithPriority", |sim| create(sim, into, flags))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: usize) -> Code {
    call("cuStreamDestroy_v2", |sim| {
        sim.potentially_unsafe()?;
        let context = match sim.streams.get(&stream) {
            Some(this) if !this.destroyed => this.context,
            _ => return Err(code::INVALID_HANDLE),
        };
        sim.leave(stream);
        // D: its work is completed all the same.
        if let Some(this) = sim.streams.get_mut(&stream) {
            this.destroyed = true;
        }
        sim.count(context, Kind::Stream, false);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: usize) -> Code {
    call("cuStreamSynchronize", |sim| {
        let stream = sim.stream(stream)?;
        sim.not_capturing(stream)?;
        sim.potentially_unsafe()?;
        let place = sim.streams[&stream].submitted;
        sim.run_to(stream, place)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamQuery(stream: usize) -> Code {
    call("cuStreamQuery", |sim| {
        let stream = sim.stream(stream)?;
        sim.not_capturing(stream)?;
        sim.potentially_unsafe()?;
        let place = sim.streams[&stream].submitted;
        if sim.step(stream, place) {
            return Err(code::NOT_READY);
        }
        sim.current().map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: usize, event: usize, _: c_uint) -> Code {
    call("cuStreamWaitEvent", |sim| {
        let stream = sim.stream(stream)?;
        let mark = sim.event(event)?.mark.clone();
        sim.follow(stream, mark)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetFlags(stream: usize, into: *mut c_uint) -> Code {
    call("cuStreamGetFlags", |sim| {
        let stream = sim.stream(stream)?;
        let blocking = sim.streams[&stream].blocking;
        // SAFETY: as the caller promises; so below.
        unsafe { put(into, if blocking { 0 } else { NON_BLOCKING }) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) -> Code {
    call("cuStreamBeginCapture_v2", |sim| {
        let stream = sim.stream(stream)?;
        sim.begin(stream, mode)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamEndCapture(stream: usize, into: *mut usize) -> Code {
    call("cuStreamEndCapture", |sim| {
        let stream = sim.stream(stream)?;
        let ended = sim.end(stream);
        // SAFETY: as above.
        unsafe { put(into, ended.unwrap_or(0)) }?;
        ended.map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamIsCapturing(stream: usize, into: *mut c_uint) -> Code {
    call("cuStreamIsCapturing", |sim| {
        let stream = sim.stream(stream)?;
        // SAFETY: as above.
        unsafe { put(into, sim.status(stream)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCaptureInfo_v2(
    stream: usize,
    status: *mut c_uint,
    id: *mut u64,
    graph: *mut usize,
    tips: *mut *const usize,
    count: *mut usize,
) -> Code {
    call("cuStreamGetCaptureInfo_v2", |sim| {
        let stream = sim.stream(stream)?;
        if !(tips.is_null() && count.is_null()) {
            return Err(code::NOT_SUPPORTED);
        }
        // SAFETY: as above; the others may be null.
        unsafe {
            put(status, sim.status(stream))?;
            let capture = sim.streams[&stream].capture.unwrap_or(0);
            if !id.is_null() {
                put(id, capture as u64)?;
            }
            if !graph.is_null() {
                put(graph, capture)?;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(into: *mut usize, _: c_uint) -> Code {
    call("cuEventCreate", |sim| {
        let context = sim.current()?;
        let id = sim.id();
        let event = Event {
            context,
            mark: Mark::Nothing,
            asked: false,
        };
        sim.events.insert(id, event);
        sim.count(context, Kind::Event, true);
        // SAFETY: as above.
        unsafe { put(into, id) }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: usize) -> Code {
    call("cuEventDestroy_v2", |sim| {
        let context = sim
            .events
            .remove(&event)
            .ok_or(code::INVALID_HANDLE)?
            .context;
        sim.count(context, Kind::Event, false);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: usize, stream: usize) -> Code {
    call("cuEventRecord", |sim| {
        let stream = sim.stream(stream)?;
        let context = sim.streams[&stream].context;
        let mark = sim.mark(stream)?;
        let event = sim.event(event)?;
        if event.context != context {
            return Err(code::INVALID_HANDLE);
        }
        (event.mark, event.asked) = (mark, false);
        Ok(())
    })
}

/// What an event stands for, where it may be waited for.
fn awaited(sim: &mut Sim, event: usize) -> Result<Mark, Code> {
    sim.current()?;
    let mark = sim.event(event)?.mark.clone();
    if let Mark::Captured(..) = mark {
        return Err(code::CAPTURED_EVENT);
    }
    sim.potentially_unsafe()?;
    Ok(mark)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: usize) -> Code {
    call("cuEventSynchronize", |sim| match awaited(sim, event)? {
        Mark::Place(stream, place) => sim.run_to(stream, place),
        _ => Ok(()),
    })
}

/// Work goes on while it is asked for: a piece at each question but the first.
#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: usize) -> Code {
    call("cuEventQuery", |sim| {
        let mark = awaited(sim, event)?;
        let asked = std::mem::replace(&mut sim.event(event)?.asked, true);
        if let (true, Mark::Place(stream, place)) = (asked, &mark) {
            sim.step(*stream, *place);
        }
        if !sim.is_done(&mark) {
            return Err(code::NOT_READY);
        }
        sim.current().map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(into: *mut f32, from: usize, to: usize) -> Code {
    call("cuEventElapsedTime", |sim| {
        awaited(sim, from)?;
        awaited(sim, to)?;
        // SAFETY: as above.
        unsafe { put(into, 0.0) }
    })
}
