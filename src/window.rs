//! The window, and the warm-up before it: the comparison of the two runs (L9), the first failure
//! (L8, L14), and what the graph will own (M1).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::access::Mode;
use crate::backend::Backend;
use crate::error::{At, Error};
use crate::memory::{Block, Handle, Pool, Primed, Touching};
use crate::stream_id::StreamId;
use crate::trace::{Command, Touch, Trace};
pub(crate) use plan::Plan;
use scratch::{Lives, Scratch};

mod plan;
mod scratch;

/// A value of the user's that is only kept to be dropped later.
pub(crate) type Kept = Box<dyn Send>;

/// What a stream remembers of its capture. Between captures it is idle and empty.
pub(crate) struct Window<B: Backend> {
    state: State<B>,
    warm_up: Trace,
    /// Commands issued in this run, the failed ones included.
    issued: usize,
    /// Commands of this run that are work.
    running: usize,
    /// Why `begin` will be refused, or why the recording will not seal: the first failure, for good.
    doom: Option<Error>,
    /// Which run this is, of all in the process.
    run: u64,
    /// The numbers of the buffers that this run has used, by their handles; for the handles that do
    /// not remember it.
    numbers: FxHashMap<u64, u32>,
    /// The buffers by number.
    buffers: Vec<Numbered>,
    /// The places in the contents of the blocks that were allocated in this window.
    born: FxHashMap<u64, usize>,
    /// The accesses of the command that is being issued; here for its capacity.
    touches: Vec<Touch>,
    contents: Contents<B>,
}

/// How far a capture has come, as its commands see it.
enum State<B: Backend> {
    Idle,
    /// The stream is in somebody else's window: nothing that is issued runs, and all of it marks what it
    /// should have written, also what comes after the first command (N8).
    Refusing(Error),
    WarmUp(Under<B>, Lives),
    Recording(Under<B>, Scratch<B>),
}

/// What becomes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// It runs.
    Runs,
    /// It is recorded, and a replay runs it.
    Recorded,
    /// It never runs, and marks what it should have written.
    Refused,
}

/// What a capture has in both its phases.
pub(crate) struct Under<B: Backend> {
    owner: StreamId,
    /// Other callers use the stream as well.
    shared: bool,
    primed: Arc<Primed<B>>,
}

impl<B: Backend> Clone for Under<B> {
    fn clone(&self) -> Self {
        Self {
            owner: self.owner,
            shared: self.shared,
            primed: Arc::clone(&self.primed),
        }
    }
}

/// A buffer that a run has used.
#[derive(Clone, Copy)]
struct Numbered {
    /// Its block's place in the contents.
    place: usize,
    bytes: usize,
}

/// What a recording leaves to its graph.
pub(crate) struct Contents<B: Backend> {
    /// The commands of the graph: those of the warm-up, which the recorded ones equal.
    pub(crate) commands: Trace,
    /// What it touches: each block once.
    pub(crate) touched: Vec<Touched<B>>,
    pub(crate) kept: Vec<Kept>,
    /// Handles of the copies that the host will read, by which those are known.
    pub(crate) downloads: Vec<Arc<Handle<B>>>,
}

/// A block that a recording touches.
pub(crate) struct Touched<B: Backend> {
    pub(crate) memory: Touching<B>,
    /// Whether a replay reads what it finds there.
    pub(crate) input: bool,
    pub(crate) written: bool,
    /// Whether a replay writes all of it.
    pub(crate) written_whole: bool,
}

/// Where an allocation finds its memory.
pub(crate) enum Source<B: Backend> {
    /// The pool, or the driver.
    Anywhere,
    /// For a warm-up: what it freed, or anywhere.
    WarmUp(Arc<Primed<B>>),
    /// In a window: here.
    Window(Arc<Block<B>>),
    /// In a window, and nowhere. Its index is for the error.
    Nowhere(usize),
}

impl<B: Backend> Window<B> {
    pub(crate) fn idle() -> Self {
        Self::new(State::Idle, Trace::default())
    }

    /// Commands are refused, and mark what they should have written (M11).
    pub(crate) fn refusing(error: Error) -> Self {
        Self::new(State::Refusing(error), Trace::default())
    }

    /// A warm-up begins.
    pub(crate) fn warm_up(owner: StreamId, pool: &Arc<Pool<B>>) -> Self {
        let under = Under {
            owner,
            shared: false,
            primed: Primed::new(pool),
        };
        Self::new(State::WarmUp(under, Lives::new()), Trace::default())
    }

    /// Others use the stream of this capture as well: see [`check_input`](Self::check_input).
    pub(crate) fn share(&mut self) {
        if let State::WarmUp(under, _) = &mut self.state {
            under.shared = true;
        }
    }

    fn new(state: State<B>, warm_up: Trace) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(1);
        Self {
            state,
            run: RUNS.fetch_add(1, Ordering::Relaxed),
            warm_up,
            issued: 0,
            running: 0,
            doom: None,
            numbers: FxHashMap::default(),
            buffers: Vec::new(),
            born: FxHashMap::default(),
            touches: Vec::new(),
            contents: Contents {
                commands: Trace::default(),
                touched: Vec::new(),
                kept: Vec::new(),
                downloads: Vec::new(),
            },
        }
    }

    /// Another warm-up pass begins (L15). It finds the memory that the last one freed.
    pub(crate) fn again(&mut self) {
        if let State::WarmUp(under, _) = &self.state {
            let primed = under.primed.again();
            let under = Under {
                primed,
                ..under.clone()
            };
            *self = Self::new(State::WarmUp(under, Lives::new()), Trace::default());
        }
    }

    /// Ends the warm-up, if it ran, and none of it failed (L14). Hands out the plan of the memory
    /// that its recording will have.
    ///
    /// # Errors
    /// [`Error::WarmUpFailed`], [`Error::NoWarmUp`].
    pub(crate) fn end_warm_up(&mut self) -> Result<Plan, Error> {
        if let Some(failed) = &self.doom {
            return Err(failed.clone());
        }
        let plan = match &mut self.state {
            State::WarmUp(Under { owner, .. }, _) if self.issued == 0 => {
                return Err(Error::NoWarmUp { owner: *owner });
            }
            State::WarmUp(_, lives) => lives.plan::<B>(),
            _ => Plan::default(),
        };
        // Planned to stay, and now gone.
        self.contents.downloads.clear();
        Ok(plan)
    }

    /// What the warm-up primed.
    pub(crate) fn primed(&self) -> Option<Arc<Primed<B>>> {
        self.under().map(|under| Arc::clone(&under.primed))
    }

    /// The window opens: what follows is compared with the warm-up, and lives where `plan` says.
    pub(crate) fn open(&mut self, plan: Plan) {
        if let State::WarmUp(under, lives) = &mut self.state {
            let (under, scratch) = (under.clone(), Scratch::new(lives, plan));
            let warm_up = std::mem::take(&mut self.warm_up);
            *self = Self::new(State::Recording(under, scratch), warm_up);
        }
    }

    /// Which run it is, in a warm-up.
    pub(crate) fn pass(&self) -> Option<u64> {
        matches!(self.state, State::WarmUp(..)).then_some(self.run)
    }

    /// What doomed it.
    pub(crate) fn doom(&self) -> Option<&Error> {
        self.doom.as_ref()
    }

    pub(crate) fn is_recording(&self) -> bool {
        matches!(self.state, State::Recording(..))
    }

    /// What becomes of what is issued.
    pub(crate) fn course(&self) -> Course {
        match self.state {
            State::Idle | State::WarmUp(..) => Course::Runs,
            State::Recording(..) => Course::Recorded,
            State::Refusing(_) => Course::Refused,
        }
    }

    /// Why commands are refused, where they are.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        match &self.state {
            State::Refusing(error) => Some(error),
            _ => None,
        }
    }

    /// Commands issued in this run so far.
    pub(crate) fn issued(&self) -> usize {
        self.issued
    }

    fn under(&self) -> Option<&Under<B>> {
        match &self.state {
            State::Idle | State::Refusing(_) => None,
            State::WarmUp(under, _) | State::Recording(under, _) => Some(under),
        }
    }

    /// Takes a command into the run and says at which place, from 0. A command that is refused
    /// here has taken its place too, but must not reach the driver.
    ///
    /// # Errors
    /// What `check` says of the arguments, which dooms (L8); in a doomed recording, what doomed it;
    /// at the first difference from the warm-up [`Error::Diverged`], which dooms (L9). `check` is
    /// told whether the command is the warm-up's, over memory that this run has used before: then
    /// devices and overlaps have been checked.
    pub(crate) fn admit(
        &mut self,
        command: &Command<'_, B>,
        check: impl FnOnce(&Self, bool) -> Result<(), Error>,
    ) -> Result<usize, Error> {
        match (&self.state, &self.doom) {
            (State::Idle, _) => return check(self, false).map(|()| 0),
            (State::Refusing(_), _) => return Ok(0),
            (State::Recording(..), Some(doom)) => return Err(doom.clone()),
            _ => {}
        }
        let index = self.issued;
        self.issued += 1;
        self.running += usize::from(command.kind.runs());
        let known = self.recognises(index, command);
        if let Err(refused) = check(self, known) {
            self.fail(index, || command.title(), command.at, &refused);
            return Err(refused);
        }
        if known {
            return Ok(index);
        }
        self.number(command);
        let State::Recording(under, _) = &self.state else {
            self.warm_up.push(command, &self.touches);
            return Ok(index);
        };
        let Some((warm_up, recorded)) = self.warm_up.difference(index, command, &self.touches)
        else {
            return Ok(index);
        };
        let diverged = Error::Diverged {
            owner: under.owner,
            index,
            warm_up,
            recorded,
        };
        self.doom = Some(diverged.clone());
        Err(diverged)
    }

    /// Where the allocation that was just admitted, of `bytes` bytes, finds its memory.
    pub(crate) fn source(&mut self, bytes: usize) -> Source<B> {
        match &mut self.state {
            State::Idle | State::Refusing(_) => Source::Anywhere,
            State::WarmUp(under, lives) => {
                lives.begin(bytes);
                Source::WarmUp(Arc::clone(&under.primed))
            }
            State::Recording(under, scratch) => match scratch.begin(bytes, &under.primed) {
                Some(block) => Source::Window(block),
                None => Source::Nowhere(self.issued.saturating_sub(1)),
            },
        }
    }

    /// A handle to memory that is allocated now.
    pub(crate) fn handle(
        &self,
        block: Arc<Block<B>>,
        bytes: usize,
        for_user: bool,
    ) -> Arc<Handle<B>> {
        let leaving = match &self.state {
            State::Idle | State::Refusing(_) => None,
            State::WarmUp(_, lives) => Some(lives.last()),
            State::Recording(_, scratch) => Some(scratch.last()),
        };
        Handle::new(block, bytes, leaving, for_user)
    }

    /// The command that was just admitted has allocated: the memory is the run's from birth.
    pub(crate) fn adopt(&mut self, handle: &Arc<Handle<B>>) {
        if self.under().is_none() {
            return;
        }
        let number = self.number_of(handle);
        if self.is_recording()
            && let Some(buffer) = self.buffers.get(number as usize)
        {
            self.born.insert(handle.block().id(), buffer.place);
        }
    }

    /// Keeps the copy that the host will read, so that no later command takes its memory; in the
    /// warm-up too, which must need as much at once.
    pub(crate) fn keep_download(&mut self, handle: &Arc<Handle<B>>) {
        if self.under().is_some() {
            self.contents.downloads.push(Arc::clone(handle));
        }
    }

    /// Whether the recording does not mind the mark on `block`: since it allocated it, so what it
    /// holds comes with the first replay; or since others use its stream, whose failures must not
    /// doom it (N9), and each replay will ask again.
    #[cold]
    fn overlooks(&self, block: &Block<B>) -> bool {
        match &self.state {
            State::Recording(under, _) => under.shared || self.born.contains_key(&block.id()),
            _ => false,
        }
    }

    /// Refuses input that was never written as it should (M11), unless it will be by this recording.
    #[inline]
    pub(crate) fn check_input(&self, block: &Block<B>) -> Result<(), Error> {
        if !block.mark.is_set() || self.overlooks(block) {
            return Ok(());
        }
        block.mark.check()
    }

    /// A command failed: the first one dooms (L8, L14).
    pub(crate) fn fail(
        &mut self,
        index: usize,
        name: impl FnOnce() -> Arc<str>,
        at: At,
        error: &Error,
    ) {
        if self.doom.is_some() {
            return;
        }
        let Some(&Under { owner, .. }) = self.under() else {
            return;
        };
        let (name, first) = (name(), Arc::new(error.clone()));
        self.doom = Some(match &self.state {
            State::Recording(..) => Error::Doomed {
                owner,
                index,
                name,
                at,
                first,
            },
            _ => Error::WarmUpFailed {
                owner,
                index,
                name,
                at,
                first,
            },
        });
    }

    /// A wait or a replay failed. Outside a warm-up that concerns no capture.
    pub(crate) fn fail_wait(&mut self, name: &'static str, at: At, error: &Error) {
        if matches!(self.state, State::WarmUp(..)) {
            self.fail(self.issued, || name.into(), at, error);
        }
    }

    /// Keeps a value for the graph.
    pub(crate) fn keep(&mut self, value: Kept) {
        self.contents.kept.push(value);
    }

    /// The capture is over: gives what was primed to the pool.
    pub(crate) fn close(&self) {
        if let Some(under) = self.under() {
            under.primed.close();
        }
    }

    /// What the graph will own.
    ///
    /// # Errors
    /// Why the recording must not seal: the first failure (L8), a difference in length (L9), or that
    /// it runs nothing (L11).
    pub(crate) fn seal(mut self, owner: StreamId) -> Result<Contents<B>, Error> {
        if let Some(doom) = self.doom {
            return Err(doom);
        }
        if self.running == 0 {
            return Err(Error::EmptyRecording { owner });
        }
        if let Some(warm_up) = self.warm_up.describe(self.issued) {
            return Err(Error::Diverged {
                owner,
                index: self.issued,
                warm_up,
                recorded: "nothing, since the recording ended".into(),
            });
        }
        self.sum_up();
        self.contents.commands = self.warm_up;
        Ok(self.contents)
    }

    /// Whether `command` is the one at `index` of the warm-up, over memory that this recording has
    /// used before. Most are, and need no further look.
    fn recognises(&self, index: usize, command: &Command<'_, B>) -> bool {
        self.is_recording()
            && self.warm_up.is_step(index, command, |touch, used| {
                used.span.handle().is_number_in(self.run, touch.buffer)
            })
    }

    /// Notes the accesses of `command` as touches. In a recording the blocks are held from here on.
    fn number(&mut self, command: &Command<'_, B>) {
        self.touches.clear();
        for used in command.uses {
            let buffer = self.number_of(used.span.handle());
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
                buffer: self.next_number(),
                mode: Mode::Write,
                start: 0,
                bytes,
            });
        }
    }

    fn next_number(&self) -> u32 {
        // More buffers than that fit in no memory.
        u32::try_from(self.buffers.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn number_of(&mut self, handle: &Arc<Handle<B>>) -> u32 {
        match handle.number_in(self.run) {
            Some(number) => number,
            None => self.look_up(handle),
        }
    }

    /// The number of a buffer that does not remember it: it is new to this run, or another run has
    /// used it since.
    fn look_up(&mut self, handle: &Arc<Handle<B>>) -> u32 {
        let number = match self.numbers.get(&handle.id()) {
            Some(&number) => number,
            None => {
                let number = self.next_number();
                let place = self.place_of(handle.block());
                let bytes = handle.bytes();
                self.buffers.push(Numbered { place, bytes });
                self.numbers.insert(handle.id(), number);
                number
            }
        };
        handle.remember(self.run, number);
        number
    }

    /// The place in the contents of a block that is used for the first time, or again by another
    /// handle. A warm-up holds none.
    fn place_of(&mut self, block: &Arc<Block<B>>) -> usize {
        if !self.is_recording() {
            return usize::MAX;
        }
        if let Some(&place) = self.born.get(&block.id()) {
            return place;
        }
        let place = self.contents.touched.len();
        self.contents.touched.push(Touched {
            memory: Touching::new(block),
            input: false,
            written: false,
            written_whole: false,
        });
        place
    }

    /// What the commands do to each block, in their order.
    fn sum_up(&mut self) {
        for touch in self.warm_up.touches() {
            let Some(buffer) = self.buffers.get(touch.buffer as usize) else {
                continue;
            };
            let Some(touched) = self.contents.touched.get_mut(buffer.place) else {
                continue;
            };
            touched.input |= touch.mode.reads() && !touched.written_whole;
            touched.written |= touch.mode.writes();
            touched.written_whole |= touch.mode.writes() && touch.bytes == buffer.bytes;
        }
    }
}
