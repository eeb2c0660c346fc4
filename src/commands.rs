//! What a stream accepts in any phase, written once for all backends.

use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Host;
use crate::access::{Accesses, SealedAccesses, Use};
use crate::backend::{Backend, Call, Custom, OpenCalls};
use crate::captures::DeviceCaptures;
use crate::download::Download;
use crate::error::{At, Error};
use crate::lost::keep_for_good;
use crate::memory::{Block, Buffer, Cause, Element, Handle, Lease, Span, bytes_of_elements};
use crate::order::{Followed, Line};
use crate::phase::no_second_panic;
use crate::trace::{Command, Name, NodeKind, no_kernel};
use crate::window::{Course, Kept, Source, Window};

/// The commands of a stream: allocate, write, copy, fill, download, keep, and the backend's launches.
///
/// Every [`Stream`](crate::Stream) dereferences to its commands, in every phase. A function that
/// takes `&Commands<B>` can thus be written once, and run, warmed up and recorded. Outside a window
/// a command runs; inside, it is recorded and nothing runs (rule L10).
///
/// They are borrowed from the stream, in one phase and on one thread. If you keep them longer, or lend
/// them further: [`commands_kept_past_end`](crate::misuse::ownership::commands_kept_past_end),
/// [`commands_taken_from_stream`](crate::misuse::ownership::commands_taken_from_stream),
/// [`commands_sent_to_another_thread`](crate::misuse::threads::commands_sent_to_another_thread),
/// [`commands_held_across_await`](crate::misuse::threads::commands_held_across_await). The driver stream
/// behind them is [out of reach](crate::misuse::sealed::driver_reached_past_the_stream).
///
/// A command that fails in a window, or is refused there, dooms the recording, also when its error
/// is ignored (rule L8). One that fails or is refused elsewhere marks what it should have written:
/// until a command writes all of that buffer, reading it answers with [`Error::Marked`] and the
/// cause (rule M11).
pub struct Commands<B: Backend = Host> {
    driver: Result<B::Driver, Error>,
    line: Arc<Line<B>>,
    device: B,
    captures: DeviceCaptures<B>,
    window: RefCell<Window<B>>,
    followed: RefCell<Followed>,
    /// Values kept for work outside windows, until the driver has been waited for.
    kept: RefCell<Vec<Kept>>,
}

static_assertions::assert_not_impl_any!(Commands: Clone, Sync);

impl<B: Backend> Commands<B> {
    /// The device.
    #[must_use]
    pub fn device(&self) -> &B {
        &self.device
    }

    /// Allocates `len` elements, all zero (rule M13). In a window the zeroing is recorded, so that
    /// no replay sees what the one before left; until the first replay there is nothing to read.
    ///
    /// In a window the memory is what the warm-up freed, or what the pool has: nothing is asked of
    /// the driver (rule M4).
    ///
    /// Take elements that are plain bytes. If you don't:
    /// [`elements_on_the_heap`](crate::misuse::launches::elements_on_the_heap).
    ///
    /// # Errors
    /// [`Error::ZeroLength`], [`Error::BadElement`], [`Error::TooLarge`], [`Error::OutOfMemory`],
    /// [`Error::PoolExhausted`] in a window, or the driver's.
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T, B>, Error> {
        self.create(NodeKind::Alloc, len, Location::caller(), |call, span| {
            B::fill(call, span, &[0])
        })
    }

    /// Allocates a buffer that holds a copy of `data`.
    ///
    /// Take elements that are plain bytes. If you don't:
    /// [`elements_that_are_not_plain`](crate::misuse::launches::elements_that_are_not_plain).
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    #[track_caller]
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T, B>, Error> {
        let at = Location::caller();
        self.create(NodeKind::Upload, data.len(), at, |call, span| {
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
        self.write_at(buffer, data, Location::caller())
    }

    pub(crate) fn write_at<T: Pod>(
        &self,
        buffer: &Buffer<T, B>,
        data: &[T],
        at: At,
    ) -> Result<(), Error> {
        let to = buffer.span();
        let uses = [Use::write(to)];
        self.issue(
            &Command::new(NodeKind::Write, &uses, at),
            || same_length("write", buffer.len(), data.len(), at),
            |course| {
                self.submit(&uses, course, |call| {
                    B::write(call, to, bytemuck::cast_slice(data))
                })
            },
        )
    }

    /// Copies all of `from` into `to`.
    ///
    /// Copy between buffers of the stream's backend. If you don't:
    /// [`copy_from_another_backend`](crate::misuse::launches::copy_from_another_backend).
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless the lengths are equal; [`Error::Aliased`] if they overlap;
    /// [`Error::Marked`] if a command that should have written `from` failed;
    /// [`Error::OtherDevice`]; or the driver's.
    #[track_caller]
    pub fn copy<T: Pod>(&self, from: &Buffer<T, B>, to: &Buffer<T, B>) -> Result<(), Error> {
        let at = Location::caller();
        let (source, target) = (from.span(), to.span());
        let uses = [Use::read(source), Use::write(target)];
        self.issue(
            &Command::new(NodeKind::Copy, &uses, at),
            || same_length("copy", to.len(), from.len(), at),
            |course| self.submit(&uses, course, |call| B::copy(call, source, target)),
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
            ..Command::new(NodeKind::Fill, &uses, Location::caller())
        };
        self.issue(
            &command,
            || Ok(()),
            |course| self.submit(&uses, course, |call| B::fill(call, to, pattern)),
        )
    }

    /// Takes a copy of `buffer` as it is at this place of the recording, for the host to read after
    /// a replay, by [`Graph::read`](crate::Graph::read). The buffer can then be written again, by
    /// the same graph or anybody else.
    ///
    /// Only a download that was recorded can be read; that of a warm-up is thrown away with it.
    ///
    /// # Errors
    /// [`Error::OtherDevice`], [`Error::Marked`], and as [`alloc`](Self::alloc).
    #[track_caller]
    pub fn download<T: Pod>(&self, buffer: &Buffer<T, B>) -> Result<Download<T>, Error> {
        let from = buffer.span();
        let uses = [Use::read(from)];
        let command = Command {
            allocates: Some(from.bytes()),
            ..Command::new(NodeKind::Download, &uses, Location::caller())
        };
        let handle = self.issue(
            &command,
            || Ok(()),
            |course| {
                let handle = self.take(NodeKind::Download, from.bytes(), command.at)?;
                let to = Span::new(&handle, 0, from.bytes());
                let uses = [Use::read(from), Use::write(to)];
                self.submit(&uses, course, |call| B::copy(call, from, to))?;
                let mut window = self.window.borrow_mut();
                window.adopt(&handle);
                window.keep_download(&handle);
                Ok(handle)
            },
        )?;
        self.mark_unwritten(&command, &handle);
        Ok(Download::new(handle.id(), buffer.len()))
    }

    /// Keeps `value` alive for the work around it: in a window until the graph goes or the
    /// recording is given up; otherwise until the stream is next waited for (`synchronize`, `read`).
    /// It is dropped with no lock and no borrow held (rule M14), so its `Drop` may use the device.
    ///
    /// Where nobody can tell any more when the work is done (a wait failed, or the driver stream
    /// had to be retired), the value is kept for good.
    ///
    /// Keep what may be dropped on any thread. If you don't:
    /// [`kept_value_that_stays_on_its_thread`](crate::misuse::threads::kept_value_that_stays_on_its_thread).
    pub fn keep<V: Send + 'static>(&self, value: V) {
        let value: Kept = Box::new(value);
        let mut window = self.window.borrow_mut();
        match window.course() {
            Course::Recorded => window.keep(value),
            Course::Runs => self.kept.borrow_mut().push(value),
            Course::Refused => {
                // No work is around it. It goes with nothing borrowed (M14).
                drop(window);
                drop(value);
            }
        }
    }

    /// Issues a command of a backend's own: for the crate that implements the backend, which wraps
    /// it in a launch of its own.
    ///
    /// `values` is what makes it another command besides its name and accesses: handles, shapes,
    /// scalars. `run` gets the spans of `accesses`, in their order, and must run the command, or
    /// record it while [`Custom::is_recording`]. It must issue no other command.
    ///
    /// Call it on a backend that takes custom commands, and use the token in `run` alone. If you don't:
    /// [`custom_command_on_the_host`](crate::misuse::launches::custom_command_on_the_host),
    /// [`custom_command_opens_a_window`](crate::misuse::sealed::custom_command_opens_a_window),
    /// [`token_kept_past_its_command`](crate::misuse::sealed::token_kept_past_its_command).
    ///
    /// # Errors
    /// [`Error::Aliased`], [`Error::OtherDevice`], [`Error::Marked`], or what `run` returns.
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
        let (kind, kernel) = (NodeKind::Launch, no_kernel());
        self.launch_over(
            kind,
            name.into(),
            kernel,
            values,
            &accesses,
            |call, uses| {
                let spans: Vec<_> = uses.iter().map(|used| used.span).collect();
                run(Custom::new(call), &spans)
            },
        )
    }

    /// A launch, whichever backend's.
    #[track_caller]
    pub(crate) fn launch_over<A: SealedAccesses<B>>(
        &self,
        kind: NodeKind,
        name: Name,
        kernel: TypeId,
        values: &[u8],
        accesses: &A,
        run: impl FnOnce(Call<'_, B>, &[Use<'_, B>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let at = Location::caller();
        accesses.with_uses(|uses| {
            let command = Command {
                name,
                kernel,
                values,
                ..Command::new(kind, uses, at)
            };
            self.issue(
                &command,
                || Ok(()),
                |course| self.submit(uses, course, |call| run(call, uses)),
            )
        })
    }

    /// Allocates, and gives the memory its first content.
    fn create<T: Pod>(
        &self,
        kind: NodeKind,
        len: usize,
        at: At,
        first: impl FnOnce(Call<'_, B>, Span<'_, B>) -> Result<(), Error>,
    ) -> Result<Buffer<T, B>, Error> {
        let size = bytes_of_elements::<T>(kind.name(), len, at);
        if self.window.borrow().refusal().is_some() {
            size.clone()?;
        }
        let bytes = *size.as_ref().unwrap_or(&0);
        let command = Command {
            allocates: Some(bytes),
            ..Command::new(kind, &[], at)
        };
        let handle = self.issue(
            &command,
            || size.map(|_| ()),
            |course| {
                let handle = self.take(kind, bytes, at)?;
                let span = Span::new(&handle, 0, bytes);
                self.submit(&[Use::write(span)], course, |call| first(call, span))?;
                self.window.borrow_mut().adopt(&handle);
                Ok(handle)
            },
        )?;
        self.mark_unwritten(&command, &handle);
        Ok(Buffer::new(handle, len))
    }

    /// Memory for an allocation: in a window what is there already (M4), else the driver's as well.
    fn take(&self, kind: NodeKind, bytes: usize, at: At) -> Result<Arc<Handle<B>>, Error> {
        let (pool, record) = (self.captures.pool(), self.captures.record());
        let source = self.window.borrow_mut().source(bytes);
        let block = match source {
            Source::Anywhere => {
                let page = pool.page(&self.device, record, bytes)?;
                Block::new(Lease::whole(page, pool, None), 0, bytes)
            }
            Source::WarmUp(primed) => {
                let page = primed.page(&self.device, record, bytes)?;
                Block::new(Lease::whole(page, pool, Some(primed)), 0, bytes)
            }
            Source::Window(block) => block,
            Source::Nowhere(index) => {
                return Err(Error::PoolExhausted {
                    asked: bytes,
                    index,
                    at,
                });
            }
        };
        let for_user = kind != NodeKind::Download;
        Ok(self.window.borrow().handle(block, bytes, for_user))
    }

    /// Memory that was allocated in a window holds nothing before a replay; and what was allocated for
    /// refused work never does.
    fn mark_unwritten(&self, command: &Command<'_, B>, handle: &Handle<B>) {
        let window = self.window.borrow();
        let why = match window.refusal() {
            Some(refusal) => refusal,
            None if window.is_recording() => &Error::NotReplayed,
            None => return,
        };
        let cause = Cause::new(|| command.title(), command.at, why);
        handle.block().mark.set(&cause);
        self.captures.change();
    }
}

/// What the transitions and the waits need.
impl<B: Backend> Commands<B> {
    /// Opens a driver stream of `device`.
    pub(crate) fn open(device: &B) -> Result<Self, Error> {
        Ok(Self::over(device, device.open()?))
    }

    /// Commands of no driver stream, since none could be opened.
    pub(crate) fn without_driver(device: &B, why: &Error) -> Self {
        let lost = Error::StreamLost {
            cause: Arc::new(why.clone()),
        };
        Self::with(device, Err(lost.clone()), Err(lost))
    }

    /// The commands of a driver stream of `device`.
    pub(crate) fn over(device: &B, driver: B::Driver) -> Self {
        let timeline = B::timeline(&driver);
        Self::with(device, Ok(driver), Ok(timeline))
    }

    fn with(
        device: &B,
        driver: Result<B::Driver, Error>,
        timeline: Result<B::Timeline, Error>,
    ) -> Self {
        Self {
            driver,
            line: Line::new(timeline),
            device: device.clone(),
            captures: device.captures().clone(),
            window: RefCell::new(Window::idle()),
            followed: RefCell::default(),
            kept: RefCell::new(Vec::new()),
        }
    }

    #[inline]
    pub(crate) fn driver(&self) -> Result<&B::Driver, Error> {
        match &self.driver {
            Ok(driver) => Ok(driver),
            Err(lost) => Err(lost.clone()),
        }
    }

    pub(crate) fn line(&self) -> &Arc<Line<B>> {
        &self.line
    }

    pub(crate) fn captures(&self) -> &DeviceCaptures<B> {
        &self.captures
    }

    pub(crate) fn window(&self) -> &RefCell<Window<B>> {
        &self.window
    }

    pub(crate) fn followed(&self) -> &RefCell<Followed> {
        &self.followed
    }

    /// Issues commands that are no part of the capture under way: in `window` in place of its own.
    pub(crate) fn aside<R>(&self, window: Window<B>, issue: impl FnOnce(&Self) -> R) -> R {
        let own = self.window.replace(window);
        let _back = Back(self, Some(own));
        issue(self)
    }

    /// The code around the commands failed, which no command shows: `name` is what fails (L8, N6).
    pub(crate) fn fail(&self, name: &'static str, at: At, error: &Error) {
        let mut window = self.window.borrow_mut();
        let place = window.issued();
        window.fail(place, || name.into(), at, error);
    }

    /// Whether the driver stream was lost, and none has taken its place.
    pub(crate) fn is_lost(&self) -> bool {
        self.driver.is_err()
    }

    /// Whether the driver stream is still in a window that should have closed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.transition(|t| Ok(B::in_window(t))).unwrap_or(false)
    }

    /// Retires the driver stream, whatever its state, and opens another (L3).
    pub(crate) fn replace_driver(&mut self) {
        // Nobody will know when the work of the old one is done, so what was kept for it stays.
        keep_for_good(self.kept.take());
        // What it is while the old one is dropped and if opening panics.
        self.driver = Err(Error::StreamLost {
            cause: Arc::new(Error::Panicked),
        });
        let opened = self.device.open();
        if let Ok(driver) = &opened {
            self.line = Line::new(Ok(B::timeline(driver)));
        }
        self.driver = opened.map_err(|cause| Error::StreamLost {
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

    /// The driver has been waited for: what was kept for its work goes, with no borrow held (M14),
    /// and so do graphs and memory that wait.
    pub(crate) fn waited(&self, submitted: u64) {
        self.line.note_done(submitted);
        let kept = self.kept.take();
        drop(kept);
        self.captures.give_back();
    }
}

/// Puts a window back, also when a panic goes by.
struct Back<'c, B: Backend>(&'c Commands<B>, Option<Window<B>>);

impl<B: Backend> Drop for Back<'_, B> {
    fn drop(&mut self) {
        if let Some(own) = self.1.take() {
            let aside = self.0.window.replace(own);
            drop(aside);
        }
    }
}

impl<B: Backend> Drop for Commands<B> {
    fn drop(&mut self) {
        no_second_panic(|| {
            // What was kept must outlive the work that it was kept for: if nobody can tell when
            // that is done, it stays.
            let kept = self.kept.take();
            if !kept.is_empty() && self.transition(B::synchronize).is_err() {
                keep_for_good(kept);
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
