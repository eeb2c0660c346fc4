//! The one path that every command takes: checked, taken into the trace, put in order with other
//! streams, run or recorded; and noted if it fails.

use std::cell::Cell;
use std::mem::forget;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::access::Use;
use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::commands::Commands;
use crate::error::{At, Error};
use crate::memory::{Cause, Page, Span};
use crate::order::Place;
use crate::trace::Command;
use crate::window::Course;

impl<B: Backend> Commands<B> {
    /// Issues a command. `run` is told what becomes of it.
    ///
    /// What fails in a window dooms it (L8); outside, what it should have written is marked (M11), and
    /// so it is where commands are refused, which the command itself does not tell (N8).
    #[inline]
    pub(crate) fn issue<R>(
        &self,
        command: &Command<'_, B>,
        check: impl FnOnce() -> Result<(), Error>,
        run: impl FnOnce(Course) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (course, admitted) = {
            let mut window = self.window().borrow_mut();
            let admitted = window.admit(command, |window, known| {
                check()?;
                if !known {
                    self.check_uses(command)?;
                }
                let mut inputs = command.uses.iter().filter(|used| used.mode.reads());
                inputs.try_for_each(|used| window.check_input(used.span.block()))
            });
            (window.course(), admitted)
        };
        let mark = |error: &Error| {
            if course != Course::Recorded {
                self.mark_written(command, error);
            }
        };
        let index = admitted.inspect_err(mark)?;
        let fail = |error: &Error| {
            let title = || command.title();
            let mut window = self.window().borrow_mut();
            window.fail(index, title, command.at, error);
            drop(window);
            mark(error);
        };
        let done = noting(fail, || {
            run(course).map_err(|error| error.placed(command.kind.name(), command.at))
        })?;
        match course {
            Course::Runs => {
                let whole = |used: &&Use<'_, B>| used.mode.writes() && used.span.is_whole();
                for used in command.uses.iter().filter(whole) {
                    used.span.block().mark.clear();
                }
            }
            Course::Recorded => {}
            Course::Refused => {
                if let Some(refusal) = self.window().borrow().refusal() {
                    mark(refusal);
                }
            }
        }
        Ok(done)
    }

    /// Submits a command to the driver, behind what other streams do with the same memory (M9). In
    /// a window nothing is submitted: the replay will be put in order. What is refused does not run.
    #[inline(always)] // As `noting`.
    pub(crate) fn submit(
        &self,
        uses: &[Use<'_, B>],
        course: Course,
        run: impl FnOnce(Call<'_, B>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if course == Course::Refused {
            return Ok(());
        }
        let (driver, recorded) = (self.driver()?, course == Course::Recorded);
        let run = || run(Call::new(driver, self.device(), recorded));
        if recorded {
            return run();
        }
        let pages = uses
            .iter()
            .map(|used| (used.span.block().page(), used.mode.writes()));
        self.in_order(pages, run).0
    }

    /// Runs a submission behind the last uses of its memory by other streams, and notes it as the
    /// last. Says which place on this stream's line it took.
    pub(crate) fn in_order<'p, R>(
        &self,
        pages: impl Iterator<Item = (&'p Page<B>, bool)>,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> (Result<R, Error>, Place<B>) {
        let here = self.line().next();
        let done = if B::ONE_QUEUE {
            run()
        } else {
            Submitting::enter(self.captures().submitting()).and_then(|_submitting| {
                let driver = self.driver()?;
                let call = || Call::new(driver, self.device(), false);
                let mut followed = self.followed().borrow_mut();
                for (page, writes) in pages {
                    followed.come_after(&page.uses, writes, &here, call)?;
                }
                drop(followed);
                run()
            })
        };
        here.pass();
        (done, here)
    }

    /// Runs one of the backend's waits or a replay. In a warm-up its failure is one of the warm-up:
    /// what a lazy driver's command failed with shows only here.
    pub(crate) fn wait<R>(
        &self,
        name: &'static str,
        at: At,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let fail = |error: &Error| self.window().borrow_mut().fail_wait(name, at, error);
        noting(fail, || run().map_err(|error| error.placed(name, at)))
    }

    /// Runs one of the backend's transitions.
    pub(crate) fn transition<R>(
        &self,
        run: impl FnOnce(Transition<'_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        run(Transition::new(self.driver()?, self.device()))
    }

    /// Refuses memory of another device (M10), and overlapping memory with a write among it.
    fn check_uses(&self, command: &Command<'_, B>) -> Result<(), Error> {
        for (second, used) in command.uses.iter().enumerate() {
            if !used.span.block().is_of(self.captures().pool()) {
                return Err(other_device(command.kind.name(), command.at));
            }
            let twice = command.uses.iter().take(second).position(|other| {
                other.span.overlaps(&used.span) && (other.mode.writes() || used.mode.writes())
            });
            if let Some(first) = twice {
                return Err(aliased(command, first, second));
            }
        }
        Ok(())
    }

    /// Marks what `command` should have written on this device (M11).
    fn mark_written(&self, command: &Command<'_, B>, error: &Error) {
        let cause = Cause::new(|| command.title(), command.at, error);
        let pool = self.captures().pool();
        for used in command.uses {
            if used.mode.writes() && used.span.block().is_of(pool) {
                used.span.block().mark.set(&cause);
            }
        }
    }
}

impl<B: Backend> DeviceCaptures<B> {
    /// Refuses memory of another device (M10).
    pub(crate) fn check_device(
        &self,
        call: &'static str,
        span: Span<'_, B>,
        at: At,
    ) -> Result<(), Error> {
        if span.block().is_of(self.pool()) {
            return Ok(());
        }
        Err(other_device(call, at))
    }
}

#[cold]
fn other_device(call: &'static str, at: At) -> Error {
    Error::OtherDevice {
        call,
        what: "buffer",
        at,
    }
}

#[cold]
fn aliased<B: Backend>(command: &Command<'_, B>, first: usize, second: usize) -> Error {
    Error::Aliased {
        name: command.title(),
        first,
        second,
        at: command.at,
    }
}

/// Runs `run`, and tells `note` if it fails or if a panic leaves it.
#[inline(always)] // One caller each, or nearly: a frame less on the way of every command.
pub(crate) fn noting<R>(
    note: impl Fn(&Error),
    run: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    let unwinding = OnUnwind(|| note(&Error::Panicked));
    let done = run();
    forget(unwinding);
    done.inspect_err(note)
}

/// Runs its function when it is dropped: that is, when a panic keeps it from being forgotten.
struct OnUnwind<F: Fn()>(F);

impl<F: Fn()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

thread_local! {
    // No destructor, so it can be asked while a thread is torn down.
    static SUBMITTING: Cell<bool> = const { Cell::new(false) };
}

/// The device's turn to submit: held from the note that memory is used until what uses it was
/// submitted, so that nobody sees the note and not the work.
struct Submitting<'a>(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'a, ()>);

impl<'a> Submitting<'a> {
    /// # Errors
    /// [`Error::InsideKernel`] where this thread is submitting already.
    fn enter(turn: &'a Mutex<()>) -> Result<Self, Error> {
        if SUBMITTING.get() {
            return Err(Error::InsideKernel {
                call: "submit",
                at: None,
            });
        }
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        SUBMITTING.set(true);
        Ok(Self(turn))
    }
}

impl Drop for Submitting<'_> {
    fn drop(&mut self) {
        SUBMITTING.set(false);
    }
}
