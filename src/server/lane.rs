//! Where a call of a caller goes: onto the stream of its slot, beside a capture on it, or nowhere.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::commands::Commands;
use crate::completion::Completion;
use crate::error::{At, Error};
use crate::issue::noting;
use crate::order::Line;
use crate::window::Window;

/// A stream for one call, and in what sense the call is its own.
pub(super) struct Lane<'s, B: Backend> {
    pub(super) commands: &'s Commands<B>,
    pub(super) way: Way,
    /// The other stream of the slot, where the caller may have work under way too.
    pub(super) other: Option<&'s Commands<B>>,
    /// Streams that the slot has lost, with work under way.
    pub(super) lost: &'s [Arc<Line<B>>],
}

pub(super) enum Way {
    /// No capture is on the stream.
    Free,
    /// The caller's own capture is, in its warm-up.
    WarmUp,
    /// The caller's own window is open. The error is for what cannot be recorded.
    Window(Error),
    /// The warm-up of somebody else is, and the call is no part of it (N12).
    Beside,
    /// The window of somebody else is open, and this is the spare stream (N5).
    Spare,
    /// The window of somebody else is open (N5, N8).
    Refused(Error),
}

impl<B: Backend> Lane<'_, B> {
    /// Issues commands. What is refused marks what it should have written (M11).
    pub(super) fn issue<R>(
        self,
        call: &'static str,
        at: At,
        work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let commands = self.commands;
        match self.way {
            Way::Free | Way::Spare => work(commands),
            Way::WarmUp | Way::Window(_) => own(commands, call, at, work),
            Way::Beside => commands.aside(Window::idle(), work),
            // The commands say nothing of it, so that the work goes on to the end, and all is marked.
            Way::Refused(error) => {
                let refusing = Window::refusing(error.clone());
                // Whatever it says, nothing of it ran.
                drop(commands.aside(refusing, work));
                Err(error)
            }
        }
    }

    /// Waits, reads or replays: in no window.
    pub(super) fn wait<R>(
        self,
        wait: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        match self.way {
            Way::Free | Way::Spare | Way::WarmUp => wait(self.commands),
            Way::Beside => self.commands.aside(Window::idle(), wait),
            Way::Window(error) | Way::Refused(error) => Err(error),
        }
    }

    /// Waits for all streams of the slot.
    pub(super) fn synchronize(self, at: At) -> Result<(), Error> {
        let (other, lost) = (self.other, self.lost);
        self.wait(|c| c.synchronize_at(at))?;
        settle(other, lost)
    }

    /// The point behind all that was issued to the streams of the slot.
    pub(super) fn completion(self, at: At) -> Result<Completion<B>, Error> {
        let other = self.other.map(|other| other.line());
        let others = self.lost.iter().chain(other);
        self.wait(|c| {
            let completion = c.completion_at(at)?;
            let others: Result<_, Error> = others.map(|line| line.mark()).collect();
            Ok(completion.and(others?))
        })
    }

    /// Times `work`, from idle streams to an idle stream.
    pub(super) fn profile<R>(
        self,
        at: At,
        work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
    ) -> Result<(R, Duration), Error> {
        let (other, lost) = (self.other, self.lost);
        let counts = matches!(self.way, Way::WarmUp);
        self.wait(|c| {
            settle(other, lost)?;
            c.profile_at(at, |c| {
                if counts {
                    own(c, "profile", at, work)
                } else {
                    work(c)
                }
            })
        })
    }
}

/// Issues commands of the caller's own capture, which `work` fails if it fails by itself (N6).
fn own<B: Backend, R>(
    commands: &Commands<B>,
    call: &'static str,
    at: At,
    work: impl FnOnce(&Commands<B>) -> Result<R, Error>,
) -> Result<R, Error> {
    noting(|error| commands.fail(call, at, error), || work(commands))
}

/// Waits for what was issued on the other streams of a slot, outside windows.
fn settle<B: Backend>(other: Option<&Commands<B>>, lost: &[Arc<Line<B>>]) -> Result<(), Error> {
    lost.iter().try_for_each(|line| line.wait())?;
    if let Some(other) = other {
        let submitted = other.line().submitted();
        other.line().wait()?;
        other.waited(submitted);
    }
    Ok(())
}
