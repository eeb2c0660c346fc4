//! [`Backend`] for CUDA: transitions, waits and memory.
#![allow(unsafe_code)] // Calls of the driver.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys;

use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::Span;

use super::Cuda;
use super::call::check;
use super::graph::{Executable, Recorded};
use super::memory::Memory;
use super::mode::{Mode, Sealed};
use super::staging::{Shelf, Staged, room};
use super::stream::{Driver, Point, RawStream, Timeline, WarmUp, Window};

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
        Ok(Recorded::new(captured, window))
    }

    fn seal(t: Transition<'_, Self>, recorded: Recorded) -> Result<Executable, Error> {
        recorded.seal(t.driver().stream())
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
        Some(Recorded::new(captured, window.unwrap_or_default()))
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().in_window()
    }

    fn replay(executable: &mut Executable, t: Transition<'_, Self>) -> Result<(), Error> {
        executable.launch(t.driver().stream())
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
        put(driver, &call, address(to), bytes)
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
        put(driver, &call, start, pattern)?;
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
fn put<M: Mode>(
    driver: &Driver,
    call: &Call<'_, Cuda<M>>,
    to: u64,
    bytes: &[u8],
) -> Result<(), Error> {
    if !call.is_recording() {
        driver.context().bind()?;
        if let Some(pass) = call.pass() {
            driver.warm_up.borrow_mut().wrote(pass, bytes.len());
        }
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
