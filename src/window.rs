//! The window, and the warm-up before it: the trace of what was issued, the comparison of the two
//! runs (L9), the first failure (L8, L14), and what the graph will own (M1).

use std::any::TypeId;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::access::{Mode, Use};
use crate::backend::Backend;
use crate::error::{At, Error};
use crate::graph::saturating_sum;
use crate::memory::{Block, Held};
use crate::stream_id::StreamId;

/// The name of a launch. Names are nearly always literals, which cost no allocation.
pub(crate) type Name = Cow<'static, str>;

/// A value of the user's that is only kept to be dropped later.
pub(crate) type Kept = Box<dyn Send>;

/// What sort of command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Alloc,
    Upload,
    Write,
    Copy,
    Fill,
    Launch,
    /// Not commands, and in no trace; but they can fail a warm-up.
    Synchronize,
    Read,
    Replay,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::Upload => "upload",
            Self::Write => "write",
            Self::Copy => "copy",
            Self::Fill => "fill",
            Self::Launch => "launch",
            Self::Synchronize => "synchronize",
            Self::Read => "read",
            Self::Replay => "replay",
        }
    }

    /// Whether it is work, and not only memory for work (L11).
    fn runs(self) -> bool {
        self != Self::Alloc
    }
}

/// A command as it is issued.
pub(crate) struct Command<'a, B: Backend> {
    pub(crate) kind: Kind,
    /// The launch's name; empty for the others.
    pub(crate) name: Name,
    /// The kernel, where a type tells it.
    pub(crate) kernel: Option<TypeId>,
    /// Scalars and handles that make it another command.
    pub(crate) values: &'a [u8],
    pub(crate) uses: &'a [Use<'a, B>],
    /// The bytes of the block that it allocates and writes.
    pub(crate) allocates: Option<usize>,
    pub(crate) at: At,
}

impl<'a, B: Backend> Command<'a, B> {
    /// A command with no more to it than its kind and accesses.
    pub(crate) fn new(kind: Kind, uses: &'a [Use<'a, B>], at: At) -> Self {
        Self {
            kind,
            name: Name::default(),
            kernel: None,
            values: &[],
            uses,
            allocates: None,
            at,
        }
    }

    /// What errors call it.
    pub(crate) fn title(&self) -> Arc<str> {
        title(self.kind, &self.name)
    }
}

fn title(kind: Kind, name: &str) -> Arc<str> {
    match kind {
        Kind::Launch => format!("launch `{name}`").into(),
        other => other.name().into(),
    }
}

/// One command of a trace.
#[derive(Debug)]
struct Step {
    kind: Kind,
    name: Name,
    kernel: Option<TypeId>,
    values: Box<[u8]>,
    at: At,
    /// Its accesses end here in the trace's list, and begin where the step before ended.
    accesses_end: usize,
}

/// An access of a trace. Buffers are numbered by first use, so that a trace holds on to none, and
/// two runs compare equal if the same buffers meet in the same places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Touch {
    buffer: usize,
    mode: Mode,
    start: usize,
    bytes: usize,
}

/// What one run issued, in order.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    steps: Vec<Step>,
    touches: Vec<Touch>,
}

impl Trace {
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Bytes that its writes copy from the host.
    pub(crate) fn written_bytes(&self) -> usize {
        let written = |(step, touches): (&Step, &[Touch])| match step.kind {
            Kind::Write | Kind::Upload => saturating_sum(touches.iter().map(|touch| touch.bytes)),
            _ => 0,
        };
        saturating_sum(
            (0..self.len())
                .filter_map(|index| self.get(index))
                .map(written),
        )
    }

    fn push<B: Backend>(&mut self, command: &Command<'_, B>, touches: &[Touch]) {
        self.touches.extend_from_slice(touches);
        self.steps.push(Step {
            kind: command.kind,
            name: command.name.clone(),
            kernel: command.kernel,
            values: command.values.into(),
            at: command.at,
            accesses_end: self.touches.len(),
        });
    }

    /// The step at `index` and its accesses.
    fn get(&self, index: usize) -> Option<(&Step, &[Touch])> {
        let step = self.steps.get(index)?;
        let begin = match index.checked_sub(1) {
            Some(before) => self.steps.get(before)?.accesses_end,
            None => 0,
        };
        Some((step, self.touches.get(begin..step.accesses_end)?))
    }
}

/// How far a capture has come, as its commands see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    WarmUp,
    Recording,
}

/// What a stream remembers of its capture. Between captures it is idle and empty.
pub(crate) struct Window<B: Backend> {
    state: State,
    /// Who prepared the capture.
    owner: StreamId,
    warm_up: Trace,
    /// Commands issued in this run, the failed ones included.
    issued: usize,
    /// Commands of this run that are work.
    running: usize,
    /// Why `begin` will be refused, or why the recording will not seal: the first failure, for good.
    doom: Option<Error>,
    /// Numbers of the buffers that this run has used, by block.
    numbers: FxHashMap<u64, usize>,
    /// The accesses of the command that is being issued; here for its capacity.
    touches: Vec<Touch>,
    /// What the recording touches: each block once.
    held: Vec<Held<B>>,
    kept: Vec<Kept>,
}

impl<B: Backend> Window<B> {
    pub(crate) fn idle() -> Self {
        Self::new(State::Idle, StreamId::new(0), Trace::default())
    }

    /// A warm-up begins.
    pub(crate) fn warm_up(owner: StreamId) -> Self {
        Self::new(State::WarmUp, owner, Trace::default())
    }

    fn new(state: State, owner: StreamId, warm_up: Trace) -> Self {
        Self {
            state,
            owner,
            warm_up,
            issued: 0,
            running: 0,
            doom: None,
            numbers: FxHashMap::default(),
            touches: Vec::new(),
            held: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Whether `begin` may open this window: a warm-up ran, and none of it failed (L14).
    pub(crate) fn check_warm_up(&self) -> Result<(), Error> {
        match &self.doom {
            Some(failed) => Err(failed.clone()),
            None if self.issued == 0 => Err(Error::NoWarmUp { owner: self.owner }),
            None => Ok(()),
        }
    }

    /// The window opens: what follows is compared with the warm-up.
    pub(crate) fn open(&mut self) {
        let warm_up = std::mem::take(&mut self.warm_up);
        *self = Self::new(State::Recording, self.owner, warm_up);
    }

    /// What doomed it.
    pub(crate) fn doom(&self) -> Option<&Error> {
        self.doom.as_ref()
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.state == State::Recording
    }

    /// Takes a command into the run and says at which place, from 0. A command that is refused
    /// here has taken its place too, but must not reach the driver.
    ///
    /// # Errors
    /// What `check` says of the arguments, which dooms (L8); in a doomed recording, what doomed it;
    /// at the first difference from the warm-up [`Error::Diverged`], which dooms (L9).
    pub(crate) fn admit(
        &mut self,
        command: &Command<'_, B>,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<usize, Error> {
        match (self.state, &self.doom) {
            (State::Idle, _) => return check().map(|()| 0),
            (State::Recording, Some(doom)) => return Err(doom.clone()),
            _ => {}
        }
        let index = self.issued;
        self.issued += 1;
        self.running += usize::from(command.kind.runs());
        if let Err(refused) = check() {
            self.fail(index, command, &refused);
            return Err(refused);
        }
        self.number(command);
        if self.state == State::WarmUp {
            self.warm_up.push(command, &self.touches);
        } else if let Some(diverged) = self.difference(index, command) {
            self.doom = Some(diverged.clone());
            return Err(diverged);
        }
        Ok(index)
    }

    /// A command that [`admit`](Self::admit) let in has allocated: the block is the run's from birth.
    pub(crate) fn adopt(&mut self, block: &Arc<Block<B>>) {
        if self.state != State::Idle {
            self.number_of(block);
        }
    }

    /// A command failed: the first one dooms (L8, L14).
    pub(crate) fn fail(&mut self, index: usize, command: &Command<'_, B>, error: &Error) {
        if self.doom.is_some() {
            return;
        }
        let owner = self.owner;
        let (name, at, first) = (command.title(), command.at, Arc::new(error.clone()));
        self.doom = match self.state {
            State::Idle => None,
            State::WarmUp => Some(Error::WarmUpFailed {
                owner,
                index,
                name,
                at,
                first,
            }),
            State::Recording => Some(Error::Doomed {
                owner,
                index,
                name,
                at,
                first,
            }),
        };
    }

    /// A wait or a replay failed. Outside a warm-up that concerns no capture.
    pub(crate) fn fail_wait(&mut self, wait: &Command<'_, B>, error: &Error) {
        if self.state == State::WarmUp {
            self.fail(self.issued, wait, error);
        }
    }

    /// Keeps a value for the graph.
    pub(crate) fn keep(&mut self, value: Kept) {
        self.kept.push(value);
    }

    /// What the graph will own.
    ///
    /// # Errors
    /// Why the recording must not seal: the first failure (L8), a difference in length (L9), or
    /// that it runs nothing (L11).
    pub(crate) fn seal(self) -> Result<Contents<B>, Error> {
        if let Some(doom) = self.doom {
            return Err(doom);
        }
        if self.running == 0 {
            return Err(Error::EmptyRecording { owner: self.owner });
        }
        if let Some((step, touches)) = self.warm_up.get(self.issued) {
            return Err(Error::Diverged {
                owner: self.owner,
                index: self.issued,
                warm_up: describe(step.kind, &step.name, step.at, &step.values, touches),
                recorded: "nothing, since the recording ended".into(),
            });
        }
        Ok(Contents {
            commands: self.warm_up,
            held: self.held,
            kept: self.kept,
        })
    }

    /// Notes the accesses of `command` as touches, and holds the blocks that a recording touches.
    fn number(&mut self, command: &Command<'_, B>) {
        self.touches.clear();
        for used in command.uses {
            let buffer = self.number_of(used.span.block());
            self.touches.push(Touch {
                buffer,
                mode: used.mode,
                start: used.span.start(),
                bytes: used.span.bytes(),
            });
        }
        if let Some(bytes) = command.allocates {
            // The number that `adopt` will give it.
            self.touches.push(Touch {
                buffer: self.numbers.len(),
                mode: Mode::Write,
                start: 0,
                bytes,
            });
        }
    }

    fn number_of(&mut self, block: &Arc<Block<B>>) -> usize {
        let next = self.numbers.len();
        let number = *self.numbers.entry(block.id()).or_insert(next);
        if number == next && self.state == State::Recording {
            self.held.push(Held::new(block));
        }
        number
    }

    /// How `command` differs from the warm-up's at the same place.
    fn difference(&self, index: usize, command: &Command<'_, B>) -> Option<Error> {
        let recorded = || {
            describe(
                command.kind,
                &command.name,
                command.at,
                command.values,
                &self.touches,
            )
        };
        let Some((step, touches)) = self.warm_up.get(index) else {
            return Some(Error::Diverged {
                owner: self.owner,
                index,
                warm_up: "nothing, since it had ended".into(),
                recorded: recorded(),
            });
        };
        let alike = step.kind == command.kind
            && step.name == command.name
            && *step.values == *command.values
            && touches == self.touches;
        if alike && step.kernel == command.kernel {
            return None;
        }
        let mut recorded = recorded();
        if alike {
            recorded = format!("{recorded} with another kernel of that name").into();
        }
        Some(Error::Diverged {
            owner: self.owner,
            index,
            warm_up: describe(step.kind, &step.name, step.at, &step.values, touches),
            recorded,
        })
    }
}

/// What a recording leaves to its graph.
pub(crate) struct Contents<B: Backend> {
    /// The commands of the graph: those of the warm-up, which the recorded ones equal.
    pub(crate) commands: Trace,
    pub(crate) held: Vec<Held<B>>,
    pub(crate) kept: Vec<Kept>,
}

/// A command in words, with all that a comparison looks at.
fn describe(kind: Kind, name: &str, at: At, values: &[u8], touches: &[Touch]) -> Arc<str> {
    let mut words = title(kind, name).to_string();
    if !values.is_empty() {
        words.push_str(" of 0x");
        // Writing to a string cannot fail.
        for byte in values {
            let _ = write!(words, "{byte:02x}");
        }
    }
    for (place, touch) in touches.iter().enumerate() {
        let separator = if place == 0 { " (" } else { ", " };
        let _ = write!(
            words,
            "{separator}{} buffer {} at {}..{}",
            touch.mode.name(),
            touch.buffer,
            touch.start,
            touch.start.saturating_add(touch.bytes),
        );
    }
    if !touches.is_empty() {
        words.push(')');
    }
    let _ = write!(words, " from {at}");
    words.into()
}
