//! The one path that every command takes: checked, taken into the trace, put in order with other
//! streams, run or recorded; and noted if it fails.

use std::cell::Cell;
use std::mem::forget;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::access::Use;
use crate::backend::{Backend, Call, Transition};
use crate::captures::DeviceCaptures;
use crate::commands::Commands;
use crate::error::{At, Error};
use crate::memory::{Cause, Page, Span};
use crate::order::{Noting, Place, Repeat};
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
        let call = Call::new(driver, self.device(), recorded);
        if recorded {
            return run(call);
        }
        let pass = self.window().borrow().pass();
        let run = || run(call.in_pass(pass));
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
        self.in_turn(
            |here| self.come_after(pages, here, &Noting::once(here)),
            run,
        )
    }

    /// As [`in_order`](Self::in_order), for a replay.
    pub(crate) fn in_order_first<'p, R>(
        &self,
        repeat: &mut Repeat<B>,
        pages: impl Iterator<Item = (&'p Page<B>, bool)>,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> (Result<R, Error>, Place<B>) {
        self.in_turn(
            |here| {
                let noting = repeat.start(here);
                self.come_after(pages, here, &noting)
                    .inspect_err(|_| repeat.forget())
            },
            run,
        )
    }

    /// As [`in_order_first`](Self::in_order_first), for a replay that repeats the one before: on the same
    /// stream, over memory that nobody else has used or marked since, which `is_same` says, unless nothing has
    /// changed at all. It comes after all that it must as it is. `None` if it is no such replay, and nothing
    /// has run.
    #[inline]
    pub(crate) fn in_order_again<R>(
        &self,
        repeat: &Repeat<B>,
        is_same: impl FnOnce() -> bool,
        run: impl FnOnce() -> R,
    ) -> Option<R> {
        let line = self.line();
        let place = repeat.moves_on(line)?;
        let _submitting = Submitting::try_enter(self.captures().submitting())?;
        // Before it is looked at: what changes meanwhile is seen by the next.
        let changes = self.captures().changes();
        if repeat.looked_at(changes) {
            // All of it is as it was.
        } else if is_same() {
            repeat.look_at(changes);
        } else {
            return None;
        }
        let here = line.next_place();
        place.store(here, Ordering::Release);
        let done = run();
        line.pass(here);
        Some(done)
    }

    /// Runs a submission in the device's turn to submit, if there is more than one queue.
    #[inline]
    fn in_turn<R>(
        &self,
        order: impl FnOnce(&Place<B>) -> Result<(), Error>,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> (Result<R, Error>, Place<B>) {
        let here = self.line().next();
        let done = if B::ONE_QUEUE {
            run()
        } else {
            Submitting::enter(self.captures().submitting()).and_then(|_submitting| {
                order(&here)?;
                run()
            })
        };
        here.line.pass(here.at);
        (done, here)
    }

    /// Puts this stream behind the last uses of memory by others, and notes that it uses it `here`.
    fn come_after<'p>(
        &self,
        pages: impl Iterator<Item = (&'p Page<B>, bool)>,
        here: &Place<B>,
        noting: &Noting,
    ) -> Result<(), Error> {
        let driver = self.driver()?;
        let call = || Call::new(driver, self.device(), false);
        let mut followed = self.followed().borrow_mut();
        self.captures().change();
        for (page, writes) in pages {
            followed.come_after(&page.uses, writes, &here.line, noting, call)?;
        }
        Ok(())
    }

    /// Runs one of the backend's waits or a replay. In a warm-up its failure is one of the warm-up:
    /// what a lazy driver's command failed with shows only here.
    pub(crate) fn wait<R>(
        &self,
        name: &'static str,
        at: At,
        run: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let fail = |error: &Error| self.fail_wait(name, at, error);
        noting(fail, || run().map_err(|error| error.placed(name, at)))
    }

    /// Notes the failure of a wait or a replay.
    pub(crate) fn fail_wait(&self, name: &'static str, at: At, error: &Error) {
        self.window().borrow_mut().fail_wait(name, at, error);
    }

    /// Runs one of the backend's transitions.
    #[inline]
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
        self.captures().change();
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
    noting_panics(&note, run).inspect_err(note)
}

/// Runs `run`, and tells `note` if a panic leaves it.
#[inline(always)] // As above.
pub(crate) fn noting_panics<R>(note: impl Fn(&Error), run: impl FnOnce() -> R) -> R {
    let unwinding = OnUnwind(move || note(&Error::Panicked));
    let done = run();
    forget(unwinding);
    done
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
        Self::try_enter(turn).ok_or(Error::InsideKernel {
            call: "submit",
            at: None,
        })
    }

    /// `None` where this thread is submitting already.
    #[inline]
    fn try_enter(turn: &'a Mutex<()>) -> Option<Self> {
        if SUBMITTING.get() {
            return None;
        }
        let turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        SUBMITTING.set(true);
        Some(Self(turn))
    }
}

impl Drop for Submitting<'_> {
    #[inline]
    fn drop(&mut self) {
        SUBMITTING.set(false);
    }
}
