//! [`Backend`] for wgpu: transitions, waits and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::wgpu::{BufferAsyncError, BufferUsages, MapMode, SubmissionIndex};

use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::Span;

use super::device::{Driver, Given, Wgpu};
use super::memory::{Memory, Place};
use super::program::Program;
use super::recorded::Recorded;
use super::scope::Core;

/// What one stream has given to the device's queue.
pub struct Timeline(Arc<Given>);

/// A point in it.
pub struct Point {
    core: Arc<Core>,
    /// None behind nothing.
    index: Option<SubmissionIndex>,
    /// Set by the queue.
    done: Arc<AtomicBool>,
}

impl Point {
    /// Whether it is reached, without waiting.
    fn is_reached(&self) -> Result<bool, Error> {
        let Some(index) = &self.index else {
            return self.core.check_there().map(|()| true);
        };
        self.core.look()?;
        if !self.done.load(Ordering::Acquire) {
            return Ok(false);
        }
        // The queue may have been done with what came before, and have refused this.
        self.core.wait(index, self.core.longest_wait())
    }

    /// Looks until it is reached, or the time is over. wgpu has a wait with an end as well, which
    /// panics now and then where two threads wait.
    fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        const LONGEST_PAUSE: Duration = Duration::from_millis(1);
        let begin = Instant::now();
        let mut pause = Duration::from_micros(10);
        loop {
            if self.is_reached()? {
                return Ok(true);
            }
            let left = timeout.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            sleep(pause.min(left));
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }
}

/// Bytes on their way to the host.
pub struct Fetched {
    into: ::wgpu::Buffer,
    /// Bytes before those that were asked for.
    before: u64,
    index: SubmissionIndex,
    mapped: Receiver<Result<(), BufferAsyncError>>,
}

/// Records a command, or runs it: a program of its own.
pub(super) fn issue(
    call: &Call<'_, Wgpu>,
    name: &'static str,
    draft: impl FnOnce(&Core, &mut Recorded) -> Result<(), Error>,
) -> Result<(), Error> {
    let driver = call.driver();
    let core = driver.core();
    if call.is_recording() {
        let recorded =
            driver.recorded(|recorded| recorded.command(|recorded| draft(core, recorded)));
        return recorded.unwrap_or(Ok(()));
    }
    let mut alone = Recorded::default();
    alone.command(|recorded| draft(core, recorded))?;
    alone.run(driver.given(), name)
}

impl Backend for Wgpu {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Recorded;
    type Executable = Program;
    type Timeline = Timeline;
    type Point = Point;
    type Fetched = Fetched;

    const ONE_QUEUE: bool = true;
    // One buffer must not be read and written by one dispatch, nor copied to itself.
    const PARTS_MEMORY: bool = false;

    fn captures(&self) -> &DeviceCaptures<Self> {
        self.device_captures()
    }

    fn open(&self) -> Result<Driver, Error> {
        self.core().check_there()?;
        Ok(Driver::new(self.core()))
    }

    fn prepare(t: Transition<'_, Self>) -> Result<(), Error> {
        t.driver().core().check_there()
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        t.driver().core().check_there()?;
        t.driver().open_window();
        Ok(())
    }

    fn close(t: Transition<'_, Self>) -> Result<Recorded, Error> {
        let recorded = t.driver().close_window();
        t.driver().core().check_there()?;
        Ok(recorded.unwrap_or_default())
    }

    fn seal(t: Transition<'_, Self>, recorded: Recorded) -> Result<Program, Error> {
        recorded.seal(t.driver().core())
    }

    fn abort(t: Transition<'_, Self>) -> Option<Recorded> {
        t.driver().close_window()
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().in_window()
    }

    fn replay(executable: &mut Program, t: Transition<'_, Self>) -> Result<(), Error> {
        let given = t.driver().given();
        given
            .submit("replay", || Ok(Some(executable.encode(&given.core))))
            .map(drop)
    }

    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error> {
        match t.driver().given().mark()? {
            Some(point) => t.driver().core().wait_for("synchronize", &point),
            None => Ok(()),
        }
    }

    fn fetch(call: Call<'_, Self>, from: Span<'_, Self>) -> Result<Fetched, Error> {
        let given = call.driver().given();
        let core = &*given.core;
        let place = Place::of(from);
        place.needs("read", BufferUsages::COPY_SRC)?;
        let before = place.region.offset % 4;
        let begin = place.region.offset - before;
        let bytes = (before + place.region.bytes).next_multiple_of(4);
        let (done, mapped) = sync_channel(1);
        let mut into = None;
        let index = given.submit("read", || {
            let staging = core.device.create_buffer(&::wgpu::BufferDescriptor {
                label: Some("read"),
                size: bytes,
                usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            let mut encoder = core.device.create_command_encoder(&Default::default());
            let source = &from.memory().buffer;
            encoder.copy_buffer_to_buffer(source, begin, &staging, 0, bytes);
            // Mapped when the submission that it is part of is done.
            encoder.map_buffer_on_submit(&staging, MapMode::Read, .., move |result| {
                // Nobody listens any more after a wait that took too long.
                let _ = done.send(result);
            });
            into = Some(staging);
            Ok(Some(encoder.finish()))
        })?;
        let into = into.ok_or_else(|| Error::driver("read", "nothing was submitted"))?;
        Ok(Fetched {
            into,
            before,
            index,
            mapped,
        })
    }

    fn land(t: Transition<'_, Self>, fetched: Fetched, into: &mut [u8]) -> Result<(), Error> {
        let core = t.driver().core();
        core.wait_for("read", &fetched.index)?;
        // The wait has run the callback, or another thread's is about to.
        match fetched.mapped.recv_timeout(core.longest_wait()) {
            Ok(Ok(())) => {}
            Ok(Err(refused)) => {
                core.check_there()?;
                return Err(Error::driver("read", refused));
            }
            Err(RecvTimeoutError::Timeout) => {
                let after = core.longest_wait();
                return Err(Error::TimedOut {
                    call: "read",
                    after,
                    at: None,
                });
            }
            Err(gone) => return Err(Error::driver("read", gone)),
        }
        let end = fetched.before + into.len() as u64;
        let mapped = fetched
            .into
            .get_mapped_range(..)
            .map_err(|refused| Error::driver("read", refused))?;
        let bytes = usize::try_from(fetched.before)
            .ok()
            .zip(usize::try_from(end).ok());
        if let Some(bytes) = bytes.and_then(|(begin, end)| mapped.get(begin..end)) {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn timeline(driver: &Driver) -> Timeline {
        Timeline(Arc::clone(driver.given()))
    }

    fn mark(timeline: &Timeline) -> Result<Point, Error> {
        let (core, index) = (Arc::clone(&timeline.0.core), timeline.0.mark()?);
        let done = Arc::new(AtomicBool::new(false));
        if index.is_some() {
            let done = Arc::clone(&done);
            core.queue
                .on_submitted_work_done(move || done.store(true, Ordering::Release));
        }
        Ok(Point { core, index, done })
    }

    fn follow(_: Call<'_, Self>, _: &Point) -> Result<(), Error> {
        // There is one queue.
        Ok(())
    }

    fn is_reached(point: &Point) -> Result<bool, Error> {
        point.is_reached()
    }

    fn wait(point: &Point, timeout: Option<Duration>) -> Result<bool, Error> {
        match (timeout, &point.index) {
            (None, Some(index)) => point.core.wait_for("completion", index).map(|()| true),
            (timeout, _) => point.wait(timeout.unwrap_or(Duration::MAX)),
        }
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        Memory::allocate(self.core(), bytes)
    }

    fn free(memory: Memory) -> Result<(), Error> {
        // wgpu keeps the buffer as long as submitted work uses it.
        drop(memory);
        Ok(())
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let place = Place::of(to);
        if !call.is_recording() && place.copied().is_some() {
            return write_now(call.driver().given(), &place, to, bytes);
        }
        issue(&call, "write", |core, recorded| {
            recorded.write(core, &place, bytes)
        })
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let (from, to) = (Place::of(from), Place::of(to));
        issue(&call, "copy", |core, recorded| {
            recorded.copy(core, &from, &to)
        })
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let to = Place::of(to);
        issue(&call, "fill", |core, recorded| {
            recorded.fill(core, &to, pattern)
        })
    }
}

/// Writes by the queue, in words of four bytes; those of the last word are the place's own. The queue
/// does it before what is submitted next.
fn write_now(given: &Given, place: &Place, to: Span<'_, Wgpu>, bytes: &[u8]) -> Result<(), Error> {
    let core = &*given.core;
    place.needs("write", BufferUsages::COPY_DST)?;
    let (buffer, offset) = (&to.memory().buffer, place.region.offset);
    let (words, rest) = bytes.as_chunks::<4>();
    core.scoped("write", || {
        if !words.is_empty() {
            core.queue
                .write_buffer(buffer, offset, words.as_flattened());
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            for (to, from) in last.iter_mut().zip(rest) {
                *to = *from;
            }
            let whole = words.as_flattened().len() as u64;
            core.queue.write_buffer(buffer, offset + whole, &last);
        }
    })?;
    given.note_write(bytes.len() as u64)
}
