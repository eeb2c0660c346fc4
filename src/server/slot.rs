//! One pooled stream, in whichever phase it is: the only run-time form of the order.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::backend::Backend;
use crate::commands::Commands;
use crate::error::{Error, TransitionError};
use crate::graph::Graph;
use crate::phase::{NoCapture, PhaseName, Prepared, Recording};
use crate::server::CaptureEnd;
use crate::server::lane::{Lane, Way};
use crate::stream::Stream;
use crate::stream_id::StreamId;

/// A pooled stream, and what is remembered of the capture on it.
pub(super) struct Slot<B: Backend> {
    /// `None` where a panic took the stream away, and before the first call.
    held: Option<Held<B>>,
    /// Where neighbours work while the window is open, if they may.
    spare: Option<Stream<NoCapture, B>>,
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
    Of(StreamId),
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
            Some(owner) => Whose::Of(owner),
        }
    }

    /// The call is not in order (N2).
    fn out_of_order(&self, call: &'static str, caller: StreamId) -> Error {
        match self.whose(caller) {
            Whose::Of(owner) => Error::Neighbour {
                call,
                caller,
                owner,
                phase: self.phase(),
            },
            Whose::Own | Whose::Nobodys => Error::OutOfOrder {
                call,
                caller,
                owner: self.owner(),
                phase: self.phase(),
            },
        }
    }
}

impl<B: Backend> Slot<B> {
    pub(super) fn new() -> Self {
        Self {
            held: None,
            spare: None,
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
        let expires = self.expires?;
        expires.since.checked_add(expires.limit)
    }

    /// The stream, or a new one where there is none.
    fn take(&mut self, device: &B) -> Result<Held<B>, Error> {
        match self.held.take() {
            Some(held) if !held.is_lost() => Ok(held),
            _ => Stream::on(device).map(Held::Idle),
        }
    }

    /// Where a call goes.
    pub(super) fn lane(
        &mut self,
        device: &B,
        call: &'static str,
        caller: StreamId,
    ) -> Result<Lane<'_, B>, Error> {
        let held = self.take(device)?;
        let held: &Held<B> = self.held.insert(held);
        let stream = held.commands();
        let spare = self.spare.as_deref();
        let refused = || held.out_of_order(call, caller);
        let (commands, way, other) = match (held, held.whose(caller), spare) {
            (Held::Idle(_), ..) => (stream, Way::Free, spare),
            (Held::WarmUp(_), Whose::Own, _) => (stream, Way::WarmUp, spare),
            (Held::WarmUp(_), ..) => (stream, Way::Beside, spare),
            (Held::Window(_), Whose::Own, _) => (stream, Way::Window(refused()), spare),
            (Held::Window(_), _, Some(spare)) => (spare, Way::Spare, Some(stream)),
            (Held::Window(_), _, None) => (stream, Way::Refused(refused()), None),
        };
        Ok(Lane {
            commands,
            way,
            other,
        })
    }

    /// An idle stream, for a call that starts a capture.
    fn take_idle(
        &mut self,
        device: &B,
        call: &'static str,
        caller: StreamId,
    ) -> Result<Stream<NoCapture, B>, Error> {
        match self.take(device)? {
            Held::Idle(stream) => Ok(stream),
            held => Err(self.held.insert(held).out_of_order(call, caller)),
        }
    }

    pub(super) fn prepare(
        &mut self,
        device: &B,
        caller: StreamId,
        limit: Option<Duration>,
        divert: bool,
    ) -> Result<(), Error> {
        let stream = self.take_idle(device, "prepare", caller)?;
        if let Err(error) = self.open_spare(device, divert) {
            self.held = Some(Held::Idle(stream));
            return Err(error);
        }
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
        let lost = self.spare.as_ref().is_none_or(|spare| spare.is_lost());
        if divert && lost {
            self.spare = Some(Stream::on(device)?);
        }
        Ok(())
    }

    /// Keeps the stream of a refused transition.
    fn keep(&mut self, (error, stream): (Error, Stream<NoCapture, B>)) -> Error {
        self.held = Some(Held::Idle(stream));
        self.expires = None;
        error
    }

    pub(super) fn again(&mut self, device: &B, caller: StreamId) -> Result<(), Error> {
        match self.take(device)? {
            Held::WarmUp(stream) if stream.owner() == caller => {
                self.held = Some(Held::WarmUp(stream.again()));
                Ok(())
            }
            held => Err(self.held.insert(held).out_of_order("again", caller)),
        }
    }

    pub(super) fn begin(&mut self, device: &B, caller: StreamId) -> Result<(), Error> {
        self.tell(caller)?;
        match self.take(device)? {
            Held::WarmUp(stream) if stream.owner() == caller => match stream.begin() {
                Ok(stream) => {
                    self.held = Some(Held::Window(stream));
                    Ok(())
                }
                Err(refused) => Err(self.keep(refused.into_parts())),
            },
            held => Err(self.held.insert(held).out_of_order("begin", caller)),
        }
    }

    /// Ends the window: sealed, or thrown away with its report.
    pub(super) fn end(
        &mut self,
        device: &B,
        caller: StreamId,
    ) -> Result<Result<Graph<B>, CaptureEnd>, Error> {
        self.tell(caller)?;
        match self.take(device)? {
            Held::Window(stream) if stream.owner() == caller => match stream.end() {
                Ok((stream, graph)) => {
                    self.held = Some(Held::Idle(stream));
                    self.expires = None;
                    Ok(Ok(graph))
                }
                Err(refused) => Err(self.keep(refused.into_parts())),
            },
            Held::Window(stream) => {
                let owner = stream.owner();
                let why = Error::Abandoned { owner, by: caller };
                Ok(Err(self.discard(Held::Window(stream), why, owner)))
            }
            held => Err(self.held.insert(held).out_of_order("end", caller)),
        }
    }

    /// Gives a capture up: `None` where it was the caller's own, or there was none.
    pub(super) fn abort(
        &mut self,
        device: &B,
        caller: StreamId,
    ) -> Result<Option<CaptureEnd>, Error> {
        self.tell(caller)?;
        let held = self.take(device)?;
        Ok(match held.owner() {
            Some(owner) if owner != caller => {
                Some(self.discard(held, Error::Abandoned { owner, by: caller }, owner))
            }
            _ => {
                self.give_up(held);
                None
            }
        })
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
        self.forget_notice(caller);
        // A panic of the caller's must not cost the stream, on which others may have work under way.
        let mut panic = None;
        let captured = match caught(&mut panic, || inputs(&stream)) {
            Err(error) => Err((error, stream)),
            Ok(inputs) => stream
                .capture_as(caller, passes, |c| caught(&mut panic, || work(c, &inputs)))
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
        let expired = self.discard_of(|_| true, |owner| Error::Expired { owner, limit });
        let any = expired.is_some();
        self.expired = expired.or(self.expired.take());
        any
    }

    /// The caller has gone: throws away its capture, if it has one, and what it should be told.
    pub(super) fn disconnect(&mut self, caller: StreamId) -> Option<CaptureEnd> {
        let ended = self.discard_of(
            |owner| owner == caller,
            |owner| Error::Disconnected { owner },
        );
        self.forget_notice(caller);
        ended
    }

    /// Throws the capture away, if there is one of such an owner.
    fn discard_of(
        &mut self,
        of: impl FnOnce(StreamId) -> bool,
        why: impl FnOnce(StreamId) -> Error,
    ) -> Option<CaptureEnd> {
        let owner = self.owner().filter(|&owner| of(owner))?;
        let held = self.held.take()?;
        Some(self.discard(held, why(owner), owner))
    }

    /// Throws a capture away, whose owner will be told why (N3, N4).
    fn discard(&mut self, held: Held<B>, why: Error, owner: StreamId) -> CaptureEnd {
        let error = why.clone();
        self.notice = Some(Notice { owner, error });
        let doom = held.commands().window().borrow().doom().cloned();
        self.give_up(held);
        let told: Vec<_> = std::iter::once(why).chain(doom).collect();
        CaptureEnd::Abandoned {
            owner,
            report: Error::Several(Arc::from(told)),
        }
    }

    /// Aborts the capture, if there is one, and keeps the stream.
    fn give_up(&mut self, held: Held<B>) {
        self.expires = None;
        self.held = Some(Held::Idle(match held {
            Held::Idle(stream) => stream,
            Held::WarmUp(stream) => stream.abort(),
            Held::Window(stream) => stream.abort(),
        }));
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
