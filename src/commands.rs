//! What a stream accepts in any phase, written once for all backends.

use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;

use crate::access::{Accesses, SealedAccesses, Use};
use crate::backend::{Backend, Call, Custom, OpenCalls, Transition};
use crate::captures::DeviceCaptures;
use crate::error::{At, Error};
use crate::memory::{Block, Buffer, Span, bytes_of_elements};
use crate::phase::no_second_panic;
use crate::window::{Command, Kept, Kind, Name, Window};

/// The commands of a stream: allocate, write, copy, fill, keep, and the backend's launches.
///
/// Every [`Stream`](crate::Stream) dereferences to its commands, in every phase. A function that
/// takes `&Commands<B>` can thus be written once, and run, warmed up and recorded. Outside a window
/// a command runs; inside, it is recorded and nothing runs (rule L10).
///
/// A command that fails in a window, or is refused there, dooms the recording, also when its error
/// is ignored (rule L8).
pub struct Commands<B: Backend> {
    driver: Result<B::Driver, Error>,
    device: B,
    captures: DeviceCaptures<B>,
    window: RefCell<Window<B>>,
    /// Values kept for work outside windows, until the driver has been waited for.
    kept: RefCell<Vec<Kept>>,
}

static_assertions::assert_not_impl_any!(Commands<crate::Host>: Clone, Sync);

impl<B: Backend> Commands<B> {
    /// Allocates `len` elements, all zero (rule M13). In a window the zeroing is recorded, so that
    /// no replay sees what the one before left.
    ///
    /// # Errors
    /// [`Error::ZeroLength`], [`Error::BadElement`], [`Error::TooLarge`], [`Error::OutOfMemory`],
    /// or the driver's.
    #[track_caller]
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T, B>, Error> {
        self.create(Kind::Alloc, len, |call, span| B::fill(call, span, &[0]))
    }

    /// Allocates a buffer that holds a copy of `data`.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[track_caller]
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer<T, B>, Error> {
        self.create(Kind::Upload, data.len(), |call, span| {
            B::write(call, span, bytemuck::cast_slice(data))
        })
    }

    /// Copies `data` into `buffer`. In a window the recording keeps a copy of `data`, which every
    /// replay writes again (rule M6).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless the lengths are equal; [`Error::OtherDevice`]; or the driver's.
    #[track_caller]
    pub fn write<T: Pod>(&self, buffer: &Buffer<T, B>, data: &[T]) -> Result<(), Error> {
        let at = Location::caller();
        let to = buffer.span();
        self.issue(
            &Command::new(Kind::Write, &[Use::write(to)], at),
            || same_length("write", buffer.len(), data.len(), at),
            |call| B::write(call, to, bytemuck::cast_slice(data)),
        )
    }

    /// Copies all of `from` into `to`.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless the lengths are equal; [`Error::Aliased`] if both are of one
    /// memory; [`Error::OtherDevice`]; or the driver's.
    #[track_caller]
    pub fn copy<T: Pod>(&self, from: &Buffer<T, B>, to: &Buffer<T, B>) -> Result<(), Error> {
        let at = Location::caller();
        let (source, target) = (from.span(), to.span());
        self.issue(
            &Command::new(Kind::Copy, &[Use::read(source), Use::write(target)], at),
            || same_length("copy", to.len(), from.len(), at),
            |call| B::copy(call, source, target),
        )
    }

    /// Sets every element of `buffer` to `value`. A recorded fill keeps the value.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], or the driver's.
    #[track_caller]
    pub fn fill<T: Pod>(&self, buffer: &Buffer<T, B>, value: T) -> Result<(), Error> {
        let (to, pattern) = (buffer.span(), bytemuck::bytes_of(&value));
        let uses = [Use::write(to)];
        let command = Command {
            values: pattern,
            ..Command::new(Kind::Fill, &uses, Location::caller())
        };
        self.issue(&command, || Ok(()), |call| B::fill(call, to, pattern))
    }

    /// Keeps `value` alive for the work around it: in a window until the graph goes or the
    /// recording is given up; otherwise until the stream is next waited for (`synchronize`, `read`).
    /// It is dropped with no lock and no borrow held (rule M14), so its `Drop` may use the device.
    pub fn keep<V: Send + 'static>(&self, value: V) {
        let value: Kept = Box::new(value);
        let mut window = self.window.borrow_mut();
        if window.is_recording() {
            window.keep(value);
        } else {
            self.kept.borrow_mut().push(value);
        }
    }

    /// Issues a command of a backend's own: for the crate that implements the backend, which wraps
    /// it in a launch of its own.
    ///
    /// `values` is what makes it another command besides its name and accesses: handles, shapes,
    /// scalars. `run` gets the spans of `accesses`, in their order, and must run the command, or
    /// record it while [`Custom::is_recording`].
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::OtherDevice`], or what `run` returns.
    #[track_caller]
    pub fn custom<A: Accesses<B>>(
        &self,
        name: impl Into<Name>,
        values: &[u8],
        accesses: A,
        run: impl FnOnce(Custom<'_, B>, &[Span<'_, B>]) -> Result<(), Error>,
    ) -> Result<(), Error>
    where
        B: OpenCalls,
    {
        let at = Location::caller();
        self.launch_over(name.into(), None, values, &accesses, at, |call, uses| {
            let spans: Vec<_> = uses.iter().map(|used| used.span).collect();
            run(Custom::new(call), &spans)
        })
    }

    /// A launch, whichever backend's.
    pub(crate) fn launch_over<A: SealedAccesses<B>>(
        &self,
        name: Name,
        kernel: Option<TypeId>,
        values: &[u8],
        accesses: &A,
        at: At,
        run: impl FnOnce(Call<'_, B>, &[Use<'_, B>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        accesses.with_uses(|uses| {
            let command = Command {
                name,
                kernel,
                values,
                ..Command::new(Kind::Launch, uses, at)
            };
            self.issue(&command, || Ok(()), |call| run(call, uses))
        })
    }

    /// Allocates, and gives the memory its first content.
    #[track_caller]
    fn create<T: Pod>(
        &self,
        kind: Kind,
        len: usize,
        first: impl FnOnce(Call<'_, B>, Span<'_, B>) -> Result<(), Error>,
    ) -> Result<Buffer<T, B>, Error> {
        let size = bytes_of_elements::<T>(kind.name(), len);
        let bytes = *size.as_ref().unwrap_or(&0);
        let command = Command {
            allocates: Some(bytes),
            ..Command::new(kind, &[], Location::caller())
        };
        let block = self.issue(
            &command,
            || size.map(|_| ()),
            |call| {
                if !call.is_recording() {
                    self.captures.give_back();
                }
                let memory = self.device.allocate(bytes)?;
                let block = Block::new(memory, bytes, self.captures.returns());
                first(call, Span::new(&block, 0, bytes))?;
                self.window.borrow_mut().adopt(&block);
                Ok(block)
            },
        )?;
        Ok(Buffer::new(block, len))
    }

    /// Every command passes here: checked, taken into the trace, then run or recorded; and noted
    /// if it fails, or if a panic leaves it (L8, L12).
    fn issue<R>(
        &self,
        command: &Command<'_, B>,
        check: impl FnOnce() -> Result<(), Error>,
        run: impl FnOnce(Call<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (index, recording) = {
            let mut window = self.window.borrow_mut();
            let index = window.admit(command, || {
                check()?;
                self.check_uses(command)
            })?;
            (index, window.is_recording())
        };
        self.noting(
            |error| self.window.borrow_mut().fail(index, command, error),
            || {
                let driver = self.driver()?;
                run(Call::new(driver, &self.device, recording))
            },
        )
    }

    /// Runs `run`, and notes if it fails or if a panic leaves it.
    fn noting<R>(
        &self,
        note: impl Fn(&Error),
        run: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let unwinding = OnUnwind(|| note(&Error::Panicked));
        let done = run();
        std::mem::forget(unwinding);
        done.inspect_err(note)
    }

    /// Refuses memory of another device (M10), and one memory twice with a write among them.
    fn check_uses(&self, command: &Command<'_, B>) -> Result<(), Error> {
        let mut earlier: &[Use<'_, B>] = &[];
        for (place, used) in command.uses.iter().enumerate() {
            self.check_memory(command.kind.name(), used.span, command.at)?;
            let twice = earlier.iter().position(|other| {
                other.span.block().id() == used.span.block().id()
                    && (other.mode.writes() || used.mode.writes())
            });
            if let Some(first) = twice {
                return Err(Error::Aliased {
                    name: command.title(),
                    first,
                    second: place,
                    at: command.at,
                });
            }
            earlier = command.uses.get(..=place).unwrap_or_default();
        }
        Ok(())
    }

    /// Refuses memory of another device (M10).
    pub(crate) fn check_memory(
        &self,
        call: &'static str,
        span: Span<'_, B>,
        at: At,
    ) -> Result<(), Error> {
        if span.block().goes_to(self.captures.returns()) {
            Ok(())
        } else {
            Err(Error::OtherDevice {
                call,
                what: "buffer",
                at,
            })
        }
    }
}

/// What the transitions and the waits need.
impl<B: Backend> Commands<B> {
    /// Opens a driver stream of `device`.
    pub(crate) fn open(device: &B) -> Result<Self, Error> {
        Ok(Self {
            driver: Ok(device.open()?),
            device: device.clone(),
            captures: device.captures().clone(),
            window: RefCell::new(Window::idle()),
            kept: RefCell::new(Vec::new()),
        })
    }

    pub(crate) fn captures(&self) -> &DeviceCaptures<B> {
        &self.captures
    }

    pub(crate) fn window(&self) -> &RefCell<Window<B>> {
        &self.window
    }

    /// Runs one of the backend's transitions or waits.
    pub(crate) fn transition<R>(
        &self,
        run: impl FnOnce(Transition<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        run(Transition::new(self.driver()?, &self.device))
    }

    /// Runs one of the backend's waits or a replay. In a warm-up its failure is one of the warm-up:
    /// what a lazy driver's command failed with shows only here.
    pub(crate) fn wait<R>(
        &self,
        kind: Kind,
        at: At,
        run: impl FnOnce(Transition<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let command = Command::new(kind, &[], at);
        self.noting(
            |error| self.window.borrow_mut().fail_wait(&command, error),
            || self.transition(run),
        )
    }

    /// Whether the driver stream is still in a window that should have closed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.transition(|t| Ok(B::in_window(t))).unwrap_or(false)
    }

    /// Retires the driver stream, whatever its state, and opens another (L3).
    pub(crate) fn replace_driver(&mut self) {
        // Nobody will know when the work of the old one is done, so what was kept for it stays.
        std::mem::forget(self.kept.take());
        // What it is while the old one is dropped and if opening panics.
        self.driver = Err(Error::StreamLost {
            cause: Arc::new(Error::Panicked),
        });
        self.driver = self.device.open().map_err(|cause| Error::StreamLost {
            cause: Arc::new(cause),
        });
    }

    /// Opens a driver stream where a lost one could not be replaced before.
    pub(crate) fn recover_driver(&mut self) -> Result<(), Error> {
        if self.driver.is_err() {
            self.replace_driver();
        }
        self.driver().map(|_| ())
    }

    fn driver(&self) -> Result<&B::Driver, Error> {
        self.driver.as_ref().map_err(Error::clone)
    }

    /// The driver has been waited for: what was kept for its work goes, with no borrow held (M14),
    /// and so does memory that waits.
    pub(crate) fn waited(&self) {
        let kept = self.kept.take();
        drop(kept);
        self.captures.give_back();
    }
}

impl<B: Backend> Drop for Commands<B> {
    fn drop(&mut self) {
        no_second_panic(|| {
            // What was kept must outlive the work that it was kept for: if nobody can tell when
            // that is done, it stays.
            let kept = self.kept.take();
            if !kept.is_empty() && self.transition(B::synchronize).is_err() {
                std::mem::forget(kept);
            } else {
                drop(kept);
            }
            self.captures.give_back();
        });
    }
}

impl<B: Backend> fmt::Debug for Commands<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands")
            .field("captures", &self.captures)
            .finish_non_exhaustive()
    }
}

/// Runs its function if it is dropped: that is, by a panic, for the one who was not forgets it.
struct OnUnwind<F: Fn()>(F);

impl<F: Fn()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pub(crate) fn same_length(
    call: &'static str,
    expected: usize,
    actual: usize,
    at: At,
) -> Result<(), Error> {
    if expected == actual {
        return Ok(());
    }
    Err(Error::LengthMismatch {
        call,
        expected,
        actual,
        at,
    })
}
