//! [`Backend`] for the host: transitions, waits and memory.

use std::ops::Range;
use std::time::Duration;

use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::{Held, Span};

use super::device::{Driver, Host, Node, not_in_kernel, record, run};
use super::faults::Step;
use super::memory::{Memory, copy, elements, elements_mut};

/// What a host stream recorded: its commands in order.
pub struct Program(Vec<Node>);

/// Bytes that were asked for; copied when they are waited for.
pub struct Fetched {
    from: Held<Host>,
    range: Range<usize>,
}

/// A transition that fails where it was told to.
fn attempt<R>(
    t: &Transition<'_, Host>,
    call: &'static str,
    effect: impl FnOnce() -> R,
) -> Result<R, Error> {
    let faults = t.device().faults();
    faults.attempt(Step::Transition, call, || Ok(effect()))
}

impl Backend for Host {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Program;
    type Executable = Program;
    // A command has run when its call returns, so there is nothing to mark and to wait for.
    type Timeline = ();
    type Point = ();
    type Fetched = Fetched;

    const ONE_QUEUE: bool = true;
    const PARTS_MEMORY: bool = true;

    fn captures(&self) -> &DeviceCaptures<Self> {
        self.device_captures()
    }

    fn open(&self) -> Result<Driver, Error> {
        Ok(Driver::default())
    }

    fn prepare(t: Transition<'_, Self>) -> Result<(), Error> {
        not_in_kernel("prepare")?;
        attempt(&t, "prepare", || ())
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        not_in_kernel("begin")?;
        attempt(&t, "begin", || t.driver().open_window())
    }

    fn close(t: Transition<'_, Self>) -> Result<Program, Error> {
        // The window closes in any case; a fault only tells of it.
        let recorded = Program(t.driver().close_window());
        not_in_kernel("end")?;
        attempt(&t, "end", || recorded)
    }

    fn seal(t: Transition<'_, Self>, recorded: Program) -> Result<Program, Error> {
        attempt(&t, "seal", || recorded)
    }

    fn abort(t: Transition<'_, Self>) -> Option<Program> {
        Some(Program(t.driver().close_window()))
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().in_window()
    }

    fn replay(executable: &mut Program, t: Transition<'_, Self>) -> Result<(), Error> {
        run(t.device(), "replay", |turn| {
            turn.run(|| executable.0.iter().for_each(|node| node()));
        })
    }

    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error> {
        run(t.device(), "synchronize", |_| ())
    }

    fn fetch(_: Call<'_, Self>, from: Span<'_, Self>) -> Result<Fetched, Error> {
        Ok(Fetched {
            from: from.hold(),
            range: from.range(),
        })
    }

    fn land(t: Transition<'_, Self>, fetched: Fetched, into: &mut [u8]) -> Result<(), Error> {
        run(t.device(), "read", |_| {
            into.copy_from_slice(elements(&fetched.from.read(), fetched.range));
        })
    }

    fn timeline(_: &Driver) {}

    fn mark((): &()) -> Result<(), Error> {
        Ok(())
    }

    fn follow(_: Call<'_, Self>, (): &()) -> Result<(), Error> {
        Ok(())
    }

    fn is_reached((): &()) -> Result<bool, Error> {
        Ok(true)
    }

    fn wait((): &(), _: Option<Duration>) -> Result<bool, Error> {
        Ok(true)
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        not_in_kernel("alloc")?;
        Memory::new(bytes, self.faults())
    }

    fn free(memory: Memory) -> Result<(), Error> {
        memory.free()
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let range = to.range();
        if call.is_recording() {
            let (to, bytes) = (to.hold(), Box::<[u8]>::from(bytes));
            return record(&call, "write", move || {
                put(&to, range.clone(), &bytes);
            });
        }
        run(call.device(), "write", |_| put(to.memory(), range, bytes))
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let (source, target) = (from.range(), to.range());
        if call.is_recording() {
            let (from, to) = (from.hold(), to.hold());
            return record(&call, "copy", move || {
                copy(&from, source.clone(), &to, target.clone());
            });
        }
        run(call.device(), "copy", |_| {
            copy(from.memory(), source, to.memory(), target);
        })
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let range = to.range();
        if call.is_recording() {
            let (to, pattern) = (to.hold(), Box::<[u8]>::from(pattern));
            return record(&call, "fill", move || {
                repeat(&to, range.clone(), &pattern);
            });
        }
        run(call.device(), "fill", |_| {
            repeat(to.memory(), range, pattern);
        })
    }
}

fn put(to: &Memory, range: Range<usize>, bytes: &[u8]) {
    elements_mut(&mut to.write(), range).copy_from_slice(bytes);
}

fn repeat(to: &Memory, range: Range<usize>, pattern: &[u8]) {
    let mut words = to.write();
    let bytes: &mut [u8] = elements_mut(&mut words, range);
    if let [byte] = pattern {
        bytes.fill(*byte);
        return;
    }
    for element in bytes.chunks_exact_mut(pattern.len()) {
        element.copy_from_slice(pattern);
    }
}
