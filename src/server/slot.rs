//! One pooled stream, in whichever phase it is: the only run-time form of the order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::commands::Commands;
use crate::error::Error;
use crate::graph::Graph;
use crate::lost::keep_for_good;
use crate::order::Line;
use crate::phase::{NoCapture, PhaseName, Prepared, Recording};
use crate::server::CaptureEnd;
use crate::server::lane::{Lane, Way};
use crate::stream::Stream;
use crate::stream_id::StreamId;
use crate::transition_error::TransitionError;

/// A pooled stream, and what is remembered of the capture on it.
pub(super) struct Slot<B: Backend> {
    /// `None` where a panic took the stream away, and before the first call.
    held: Option<Held<B>>,
    /// Where neighbours work while the window is open, if they may.
    spare: Option<Stream<NoCapture, B>>,
    /// The line of the stream as it was last seen, and of streams that were lost with work under way.
    line: Option<Arc<Line<B>>>,
    lost: Vec<Arc<Line<B>>>,
    /// For calls while no stream can be had.
    inert: Option<Box<Commands<B>>>,
    /// When the capture has lasted too long.
    expires: Option<Expires>,
    /// For the owner of the last abandoned capture (N4).
    notice: Option<Notice>,
    /// What the last capture that lasted too long came to.
    pub(super) expired: Option<CaptureEnd>,
}

/// The stream, in its phase.
enum Held<B: Backend> {
    Idle(Stream<NoCapture, B>),
    WarmUp(Stream<Prepared, B>),
    Window(Stream<Recording, B>),
}

/// A time limit.
#[derive(Clone, Copy)]
struct Expires {
    since: Instant,
    limit: Duration,
}

/// What an owner has to be told once.
struct Notice {
    owner: StreamId,
    error: Error,
}

/// Whose a capture is, to a caller.
enum Whose {
    Nobodys,
    Own,
    Others,
}

impl<B: Backend> Held<B> {
    fn phase(&self) -> PhaseName {
        match self {
            Self::Idle(stream) => stream.phase(),
            Self::WarmUp(stream) => stream.phase(),
            Self::Window(stream) => stream.phase(),
        }
    }

    fn owner(&self) -> Option<StreamId> {
        match self {
            Self::Idle(_) => None,
            Self::WarmUp(stream) => Some(stream.owner()),
            Self::Window(stream) => Some(stream.owner()),
        }
    }

    fn commands(&self) -> &Commands<B> {
        match self {
            Self::Idle(stream) => stream,
            Self::WarmUp(stream) => stream,
            Self::Window(stream) => stream,
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Idle(stream) if stream.is_lost())
    }

    fn whose(&self, caller: StreamId) -> Whose {
        match self.owner() {
            None => Whose::Nobodys,
            Some(owner) if owner == caller => Whose::Own,
            Some(_) => Whose::Others,
        }
    }
}

impl<B: Backend> Slot<B> {
    pub(super) fn new() -> Self {
        Self {
            held: None,
            spare: None,
            line: None,
            lost: Vec::new(),
            inert: None,
            expires: None,
            notice: None,
            expired: None,
        }
    }

    pub(super) fn phase(&self) -> PhaseName {
        self.held.as_ref().map_or(PhaseName::Idle, Held::phase)
    }

    pub(super) fn owner(&self) -> Option<StreamId> {
        self.held.as_ref().and_then(Held::owner)
    }

    /// When its capture will have lasted too long. `None` also where that is beyond all time.
    pub(super) fn expires(&self) -> Option<Instant> {
        let expires = self.expires.filter(|_| self.owner().is_some())?;
        expires.since.checked_add(expires.limit)
    }

    /// The stream, or a new one where there is none.
    fn take(&mut self, device: &B) -> Result<Held<B>, Error> {
        let held = match self.held.take() {
            Some(held) if !held.is_lost() => held,
            _ => Held::Idle(Stream::on(device)?),
        };
        self.remember(held.commands().line());
        Ok(held)
    }

    /// A stream that was lost, to a panic or since its driver stream was retired, may have work of others
    /// under way: it is waited for with the stream that took its place.
    fn remember(&mut self, line: &Arc<Line<B>>) {
        self.lost.retain(|line| !line.is_idle());
        if !self
            .line
            .as_ref()
            .is_some_and(|seen| Arc::ptr_eq(seen, line))
        {
            let before = self.line.replace(Arc::clone(line));
            self.lost.extend(before.filter(|line| !line.is_idle()));
        }
    }

    /// The call is not in order, or another's capture is in the way (N2).
    fn refusal(&self, call: &'static str, caller: StreamId) -> Error {
        let phase = self.phase();
        match self.owner() {
            Some(owner) if owner != caller => Error::Neighbour {
                call,
                caller,
                owner,
                phase,
            },
            owner => Error::OutOfOrder {
                call,
                caller,
                owner,
                phase,
            },
        }
    }

    /// The capture, if it is the caller's: of what is refused nothing is touched, also no driver (L2).
    fn take_own(&mut self, call: &'static str, caller: StreamId) -> Result<Held<B>, Error> {
        match self.held.take_if(|held| held.owner() == Some(caller)) {
            Some(held) => Ok(held),
            None => Err(self.refusal(call, caller)),
        }
    }

    /// Puts back what a call was out of order for.
    fn put_back(&mut self, held: Held<B>, call: &'static str, caller: StreamId) -> Error {
        self.held = Some(held);
        self.refusal(call, caller)
    }

    /// Where a call goes.
    pub(super) fn lane(
        &mut self,
        device: &B,
        divert: bool,
        call: &'static str,
        caller: StreamId,
    ) -> Lane<'_, B> {
        let refusal = self.refusal(call, caller);
        let held = match self.take(device) {
            Ok(held) => held,
            Err(error) => {
                let commands = Box::new(Commands::without_driver(device, &error));
                return Lane {
                    commands: self.inert.insert(commands),
                    way: Way::Refused(error),
                    other: None,
                    lost: &[],
                };
            }
        };
        let held: &Held<B> = self.held.insert(held);
        let stream = held.commands();
        let (spare, lost) = (self.spare.as_deref(), self.lost.as_slice());
        let (commands, way, other) = match (held, held.whose(caller), spare) {
            (Held::Idle(_), ..) => (stream, Way::Free, spare),
            (Held::WarmUp(_), Whose::Own, _) => (stream, Way::WarmUp, spare),
            (Held::WarmUp(_), ..) => (stream, Way::Beside, spare),
            (Held::Window(_), Whose::Own, _) => (stream, Way::Window(refusal), spare),
            (Held::Window(_), _, Some(spare)) if divert => (spare, Way::Spare, Some(stream)),
            (Held::Window(_), ..) => (stream, Way::Refused(refusal), None),
        };
        Lane {
            commands,
            way,
            other,
            lost,
        }
    }

    /// An idle stream, for a call that starts a capture.
    fn take_idle(
        &mut self,
        device: &B,
        call: &'static str,
        caller: StreamId,
    ) -> Result<Stream<NoCapture, B>, Error> {
        if self.owner().is_some() {
            return Err(self.refusal(call, caller));
        }
        match self.take(device)? {
            Held::Idle(stream) => Ok(stream),
            held => Err(self.put_back(held, call, caller)),
        }
    }

    pub(super) fn prepare(
        &mut self,
        device: &B,
        caller: StreamId,
        limit: Option<Duration>,
        divert: bool,
    ) -> Result<(), Error> {
        if self.owner().is_none() {
            self.open_spare(device, divert)?;
        }
        let stream = self.take_idle(device, "prepare", caller)?;
        match stream.prepare_as(caller) {
            Ok(stream) => {
                stream.window().borrow_mut().share();
                self.held = Some(Held::WarmUp(stream));
                self.forget_notice(caller);
                let since = Instant::now();
                self.expires = limit.map(|limit| Expires { since, limit });
                Ok(())
            }
            Err(refused) => Err(self.keep(refused.into_parts())),
        }
    }

    /// Before a window opens, or the driver may mind.
    fn open_spare(&mut self, device: &B, divert: bool) -> Result<(), Error> {
        if divert && self.spare.is_none() {
            self.spare = Some(Stream::on(device)?);
        }
        Ok(())
    }

    /// Keeps the stream of a refused transition.
    fn keep(&mut self, (error, stream): (Error, Stream<NoCapture, B>)) -> Error {
        self.held = Some(Held::Idle(stream));
        error
    }

    pub(super) fn again(&mut self, caller: StreamId) -> Result<(), Error> {
        match self.take_own("again", caller)? {
            Held::WarmUp(stream) => {
                self.held = Some(Held::WarmUp(stream.again()));
                Ok(())
            }
            held => Err(self.put_back(held, "again", caller)),
        }
    }

    pub(super) fn begin(&mut self, caller: StreamId) -> Result<(), Error> {
        self.tell(caller)?;
        match self.take_own("begin", caller)? {
            Held::WarmUp(stream) => match stream.begin() {
                Ok(stream) => {
                    self.held = Some(Held::Window(stream));
                    Ok(())
                }
                Err(refused) => Err(self.keep(refused.into_parts())),
            },
            held => Err(self.put_back(held, "begin", caller)),
        }
    }

    /// Ends the window: sealed, or thrown away with its report.
    pub(super) fn end(&mut self, caller: StreamId) -> Result<Result<Graph<B>, CaptureEnd>, Error> {
        self.tell(caller)?;
        let of_another = |held: &mut Held<B>| {
            matches!(held, Held::Window(_)) && matches!(held.whose(caller), Whose::Others)
        };
        if let Some(held) = self.held.take_if(of_another)
            && let Some(owner) = held.owner()
        {
            let why = Error::Abandoned { owner, by: caller };
            self.notify(owner, &why);
            return Ok(Err(self.discard(held, why, owner)));
        }
        match self.take_own("end", caller)? {
            Held::Window(stream) => match stream.end() {
                Ok((stream, graph)) => {
                    self.held = Some(Held::Idle(stream));
                    Ok(Ok(graph))
                }
                Err(refused) => Err(self.keep(refused.into_parts())),
            },
            held => Err(self.put_back(held, "end", caller)),
        }
    }

    /// Gives a capture up: `None` where it was the caller's own, or there was none.
    pub(super) fn abort(&mut self, caller: StreamId) -> Result<Option<CaptureEnd>, Error> {
        self.tell(caller)?;
        let Some(owner) = self.owner() else {
            return Ok(None);
        };
        if owner != caller {
            let why = Error::Abandoned { owner, by: caller };
            self.notify(owner, &why);
            return Ok(self.discard_own(why, owner));
        }
        if let Some(held) = self.held.take() {
            self.give_up(held);
        }
        Ok(None)
    }

    /// Records and seals `work` in one call, over what `inputs` makes before.
    pub(super) fn capture<I, R>(
        &mut self,
        device: &B,
        caller: StreamId,
        passes: usize,
        inputs: impl FnOnce(&Commands<B>) -> Result<I, Error>,
        mut work: impl FnMut(&Commands<B>, &I) -> Result<R, Error>,
    ) -> Result<(Graph<B>, I, R), Error> {
        let stream = self.take_idle(device, "capture", caller)?;
        // A panic of the caller's must not cost the stream, on which others may have work under way.
        let mut panic = None;
        let captured = match caught(&mut panic, || inputs(&stream)) {
            Err(error) => Err((error, stream)),
            Ok(inputs) => stream
                .prepare_as(caller)
                .and_then(|prepared| {
                    self.forget_notice(caller);
                    prepared.capture_from(passes, |c| caught(&mut panic, || work(c, &inputs)))
                })
                .map(|(stream, graph, result)| (stream, (graph, inputs, result)))
                .map_err(TransitionError::into_parts),
        };
        let captured = match captured {
            Ok((stream, captured)) => {
                self.held = Some(Held::Idle(stream));
                Ok(captured)
            }
            Err(refused) => Err(self.keep(refused)),
        };
        match panic {
            Some(panic) => resume_unwind(panic),
            None => captured,
        }
    }

    /// Throws away a capture that has lasted too long (N13), and says whether there was one.
    pub(super) fn expire(&mut self) -> bool {
        let over = |expires: &mut Expires| expires.since.elapsed() >= expires.limit;
        let Some(Expires { limit, .. }) = self.expires.take_if(over) else {
            return false;
        };
        let Some(owner) = self.owner() else {
            return false;
        };
        let why = Error::Expired { owner, limit };
        self.notify(owner, &why);
        self.expired = self.discard_own(why, owner);
        true
    }

    /// The caller has gone: throws away its capture, if it has one, and what it should be told.
    pub(super) fn disconnect(&mut self, caller: StreamId) -> Option<CaptureEnd> {
        self.forget_notice(caller);
        let owner = self.owner().filter(|&owner| owner == caller)?;
        self.discard_own(Error::Disconnected { owner }, owner)
    }

    /// Throws away the capture that there is.
    fn discard_own(&mut self, why: Error, owner: StreamId) -> Option<CaptureEnd> {
        let held = self.held.take()?;
        Some(self.discard(held, why, owner))
    }

    /// Throws a capture away. A panic on the way, such as of a value that it kept, is its owner's and nobody
    /// else's: it goes into the report.
    fn discard(&mut self, held: Held<B>, why: Error, owner: StreamId) -> CaptureEnd {
        let doom = held.commands().window().borrow().doom().cloned();
        let given_up = catch_unwind(AssertUnwindSafe(|| self.give_up(held)));
        let panicked = given_up.err().map(|panic| {
            // Its value may panic as well.
            keep_for_good(panic);
            Error::Panicked
        });
        let told = std::iter::once(why).chain(doom).chain(panicked);
        CaptureEnd::Abandoned {
            owner,
            report: Error::Several(told.collect()),
        }
    }

    /// Aborts the capture, if there is one, and keeps the stream.
    fn give_up(&mut self, held: Held<B>) {
        self.held = Some(Held::Idle(match held {
            Held::Idle(stream) => stream,
            Held::WarmUp(stream) => stream.abort(),
            Held::Window(stream) => stream.abort(),
        }));
    }

    /// The owner of an abandoned capture will be told why (N4).
    fn notify(&mut self, owner: StreamId, why: &Error) {
        let error = why.clone();
        self.notice = Some(Notice { owner, error });
    }

    /// Tells the owner of an abandoned capture, once (N4).
    fn tell(&mut self, caller: StreamId) -> Result<(), Error> {
        match self.notice.take_if(|notice| notice.owner == caller) {
            Some(notice) => Err(notice.error),
            None => Ok(()),
        }
    }

    fn forget_notice(&mut self, caller: StreamId) {
        let _ = self.tell(caller);
    }
}

/// Runs `work`, and keeps the panic that leaves it, if one does.
fn caught<R>(
    panic: &mut Option<Box<dyn Any + Send>>,
    work: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        *panic = Some(payload);
        Err(Error::Panicked)
    })
}
