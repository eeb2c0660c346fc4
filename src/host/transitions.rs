//! [`Backend`] for the host: transitions, waits and memory.

use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::error::Error;
use crate::memory::Span;

use super::device::{Driver, Host, Node, not_in_kernel, record};
use super::memory::{Memory, elements, elements_mut};

/// A sealed graph of the host: its commands in order.
pub struct Sealed(Vec<Node>);

impl Backend for Host {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Sealed;
    type Executable = Sealed;

    fn captures(&self) -> &DeviceCaptures<Self> {
        self.device_captures()
    }

    fn open(&self) -> Result<Driver, Error> {
        Ok(Driver::default())
    }

    fn prepare(_: Transition<'_, Self>) -> Result<(), Error> {
        not_in_kernel("prepare")
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        not_in_kernel("begin")?;
        t.driver().open_window();
        Ok(())
    }

    fn close(t: Transition<'_, Self>) -> Result<Sealed, Error> {
        let recorded = Sealed(t.driver().close_window());
        not_in_kernel("end")?;
        Ok(recorded)
    }

    fn seal(_: Transition<'_, Self>, recorded: Sealed) -> Result<Sealed, Error> {
        Ok(recorded)
    }

    fn abort(t: Transition<'_, Self>) -> Option<Sealed> {
        Some(Sealed(t.driver().close_window()))
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().in_window()
    }

    fn replay(executable: &mut Sealed, t: Transition<'_, Self>) -> Result<(), Error> {
        let turn = t.device().turn("replay")?;
        turn.run(|| executable.0.iter().for_each(|node| node()));
        Ok(())
    }

    fn synchronize(_: Transition<'_, Self>) -> Result<(), Error> {
        // A command has run when its call returns.
        not_in_kernel("synchronize")
    }

    fn read(t: Transition<'_, Self>, from: Span<'_, Self>, into: &mut [u8]) -> Result<(), Error> {
        let _turn = t.device().turn("read")?;
        into.copy_from_slice(elements(&from.memory().read(), from.range()));
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        not_in_kernel("alloc")?;
        Memory::new(bytes)
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let range = to.range();
        if call.is_recording() {
            let (to, bytes) = (to.hold(), Box::<[u8]>::from(bytes));
            return record(&call, "write", move || {
                put(&to, range.clone(), &bytes);
            });
        }
        let _turn = call.device().turn("write")?;
        put(to.memory(), range, bytes);
        Ok(())
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let (source, target) = (from.range(), to.range());
        if call.is_recording() {
            let (from, to) = (from.hold(), to.hold());
            return record(&call, "copy", move || {
                put(&to, target.clone(), elements(&from.read(), source.clone()));
            });
        }
        let _turn = call.device().turn("copy")?;
        put(to.memory(), target, elements(&from.memory().read(), source));
        Ok(())
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let range = to.range();
        if call.is_recording() {
            let (to, pattern) = (to.hold(), Box::<[u8]>::from(pattern));
            return record(&call, "fill", move || {
                repeat(&to, range.clone(), &pattern);
            });
        }
        let _turn = call.device().turn("fill")?;
        repeat(to.memory(), range, pattern);
        Ok(())
    }
}

fn put(to: &Memory, range: std::ops::Range<usize>, bytes: &[u8]) {
    elements_mut(&mut to.write(), range).copy_from_slice(bytes);
}

fn repeat(to: &Memory, range: std::ops::Range<usize>, pattern: &[u8]) {
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
