//! The model: what rules L, M and N say of a pool, with nothing of how the crate does it. All buffers
//! are of two numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::STREAMS;
use super::kinds::Kind;

pub type Mem = usize;
pub type Data = [f32; 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    ReadWrite,
}

/// What a command does to bytes.
#[derive(Debug, Clone, Copy)]
pub enum Effect {
    Set(Mem, Data),
    Copy(Mem, Mem),
    Add(Mem, Mem),
    Accumulate(Mem, Mem),
    /// Its kernel panics.
    Boom(Mem),
}

/// A command. `None` among the uses: of another device.
#[derive(Debug, Clone)]
pub struct Command {
    pub name: &'static str,
    pub value: u32,
    pub uses: Vec<(Option<Mem>, Mode)>,
    /// The memory that it makes.
    pub makes: Option<Mem>,
    pub mismatch: bool,
    pub effect: Option<Effect>,
}

#[derive(Debug)]
pub struct Memory {
    pub data: Data,
    /// The kind of the first cause (M11).
    pub mark: Option<&'static str>,
}

/// What was recorded.
#[derive(Debug, Default, Clone)]
pub struct Program {
    pub effects: Vec<Effect>,
    inputs: BTreeSet<Mem>,
    written: BTreeSet<Mem>,
}

/// A command as the comparison sees it (L9): buffers are numbered by first use.
type Entry = (&'static str, u32, Vec<(usize, Mode)>, bool);

#[derive(Debug)]
pub struct Capture {
    pub owner: u64,
    /// Whether its time limit is over.
    due: bool,
    /// The recording, in the window, and its number.
    program: Option<Program>,
    of: usize,
    warm_up: Vec<Entry>,
    issued: usize,
    running: usize,
    numbers: BTreeMap<Mem, usize>,
    pub doom: Option<Kind>,
}

#[derive(Debug, Default)]
pub struct Slot {
    pub capture: Option<Capture>,
    /// For the owner of the last abandoned capture (N4).
    notice: Option<(u64, Kind)>,
    /// The last capture that its time limit ended.
    pub expired: Option<Abandoned>,
}

/// An abandoned capture: its owner, and the kinds of its report.
pub type Abandoned = (u64, Vec<Kind>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Idle,
    WarmUp,
    Window,
}

/// Where work of a caller goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// It runs, and is part of no capture.
    Runs,
    WarmUp,
    Records,
    Refused,
}

#[derive(Debug)]
pub struct Graph {
    pub owner: u64,
    pub program: Program,
    /// Its number among all recordings.
    pub of: usize,
}

/// What a pool counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub sealed: u64,
    pub failed: u64,
    pub abandoned: u64,
    pub replays: u64,
    pub refused: u64,
    pub diverted: u64,
}

#[derive(Debug, Default)]
pub struct Model {
    pub divert: bool,
    pub counts: Counts,
    pub slots: [Slot; STREAMS as usize],
    pub memories: Vec<Memory>,
    /// By number; `None` where it was destroyed.
    pub graphs: Vec<Option<Graph>>,
    /// Windows that opened.
    pub opened: usize,
}

impl Model {
    pub fn slot(&self, caller: u64) -> &Slot {
        &self.slots[(caller % STREAMS) as usize] // N1
    }

    fn slot_mut(&mut self, caller: u64) -> &mut Slot {
        &mut self.slots[(caller % STREAMS) as usize]
    }

    pub fn phase(&self, caller: u64) -> Phase {
        match &self.slot(caller).capture {
            None => Phase::Idle,
            Some(Capture { program: None, .. }) => Phase::WarmUp,
            Some(_) => Phase::Window,
        }
    }

    pub fn owner(&self, caller: u64) -> Option<u64> {
        self.slot(caller)
            .capture
            .as_ref()
            .map(|capture| capture.owner)
    }

    pub fn owns(&self, caller: u64) -> bool {
        self.owner(caller) == Some(caller)
    }

    pub fn is_recording(&self) -> bool {
        let mut captures = self.slots.iter().filter_map(|slot| slot.capture.as_ref());
        captures.any(|capture| capture.program.is_some())
    }

    pub fn route(&self, caller: u64) -> Route {
        match (self.phase(caller), self.owns(caller)) {
            (Phase::WarmUp, true) => Route::WarmUp,
            (Phase::Window, true) => Route::Records,
            (Phase::Window, false) if !self.divert => Route::Refused, // N5, N8
            _ => Route::Runs,                                         // N12, N5
        }
    }

    /// What is said to a call that a capture is in the way of (N2).
    pub fn refusal(&self, caller: u64) -> Kind {
        let another = self.owner(caller).is_some_and(|owner| owner != caller);
        Kind::of(if another { "Neighbour" } else { "OutOfOrder" })
    }

    /// With what a wait, a read or a replay is refused (N5, N6).
    pub fn wait_faults(&self, caller: u64) -> Option<Kind> {
        match self.route(caller) {
            Route::Records | Route::Refused => Some(self.refusal(caller)),
            _ => None,
        }
    }
}

/// Captures.
impl Model {
    /// Any call: what has lasted too long is over (N13).
    pub fn expire(&mut self) {
        for slot in &mut self.slots {
            if slot.capture.as_ref().is_some_and(|capture| capture.due) {
                slot.expired = slot.discard("Expired");
                self.counts.abandoned += 1;
            }
        }
    }

    pub fn prepare(&mut self, caller: u64, due: bool) {
        let slot = self.slot_mut(caller);
        slot.forget(caller); // N4
        slot.capture = Some(Capture {
            owner: caller,
            due,
            program: None,
            of: 0,
            warm_up: Vec::new(),
            issued: 0,
            running: 0,
            numbers: BTreeMap::new(),
            doom: None,
        });
    }

    pub fn again(&mut self, caller: u64) {
        if let Some(capture) = &mut self.slot_mut(caller).capture {
            capture.warm_up.clear();
            capture.restart();
        }
    }

    /// What the owner of an abandoned capture is told, once (N4).
    pub fn tell(&mut self, caller: u64) -> Option<Kind> {
        let told = self
            .slot_mut(caller)
            .notice
            .take_if(|(owner, _)| *owner == caller);
        told.map(|(_, kind)| kind)
    }

    pub fn forget(&mut self, caller: u64) {
        self.slot_mut(caller).forget(caller);
    }

    /// Why a window must not open (L14).
    pub fn begin_faults(&self, caller: u64) -> Option<Kind> {
        let capture = self.slot(caller).capture.as_ref()?;
        let none = (capture.issued == 0).then(|| Kind::of("NoWarmUp"));
        capture.doom.or(none)
    }

    pub fn begin(&mut self, caller: u64) {
        self.opened += 1;
        let of = self.opened;
        if let Some(capture) = &mut self.slot_mut(caller).capture {
            capture.program = Some(Program::default());
            capture.of = of;
            capture.restart();
        }
    }

    /// Why a recording must not seal.
    pub fn end_faults(&self, caller: u64) -> Vec<Kind> {
        let Some(capture) = &self.slot(caller).capture else {
            return Vec::new();
        };
        if let Some(doom) = capture.doom {
            return vec![doom]; // L8
        }
        let mut faults = Vec::new();
        if capture.running == 0 {
            faults.push(Kind::of("EmptyRecording")); // L11
        }
        if capture.issued < capture.warm_up.len() {
            faults.push(Kind::of("Diverged")); // L9
        }
        faults
    }

    /// The number of the recording that a caller has open.
    pub fn recording(&self, caller: u64) -> Option<usize> {
        let records = self.route(caller) == Route::Records;
        let capture = self.slot(caller).capture.as_ref().filter(|_| records);
        capture.map(|capture| capture.of)
    }

    pub fn seal(&mut self, caller: u64) -> Option<Graph> {
        let Capture {
            owner, of, program, ..
        } = self.slot_mut(caller).capture.take()?;
        let program = program?;
        Some(Graph { owner, program, of })
    }

    /// The capture is over, and its owner knows.
    pub fn give_up(&mut self, caller: u64) {
        self.slot_mut(caller).capture = None;
    }

    pub fn discard(&mut self, caller: u64, why: &'static str) -> Option<Abandoned> {
        let discarded = self.slot_mut(caller).discard(why);
        self.counts.abandoned += u64::from(discarded.is_some());
        discarded
    }

    /// Nobody is left to be told (N13).
    pub fn disconnect(&mut self, caller: u64) -> Option<Abandoned> {
        let told = self.slot_mut(caller).notice.take();
        let own = self
            .owns(caller)
            .then(|| self.discard(caller, "Disconnected"));
        self.slot_mut(caller).notice = told;
        self.forget(caller);
        own.flatten()
    }

    /// Whether work of the caller goes onto a spare stream.
    pub fn diverts(&self, caller: u64) -> bool {
        self.divert && self.phase(caller) == Phase::Window && !self.owns(caller)
    }

    /// The caller's own capture fails, if nothing has failed in it before (L8, N6).
    pub fn fail(&mut self, caller: u64, first: &'static str) {
        let doom = match self.route(caller) {
            Route::WarmUp => "WarmUpFailed",
            Route::Records => "Doomed",
            _ => return,
        };
        if let Some(capture) = &mut self.slot_mut(caller).capture {
            capture.doom.get_or_insert(Kind(doom, Some(first)));
        }
    }
}

impl Slot {
    fn forget(&mut self, caller: u64) {
        self.notice.take_if(|(owner, _)| *owner == caller);
    }

    /// N3: first who discarded it, then what had doomed it.
    fn discard(&mut self, why: &'static str) -> Option<Abandoned> {
        let Capture { owner, doom, .. } = self.capture.take()?;
        self.notice = Some((owner, Kind::of(why)));
        Some((owner, std::iter::once(Kind::of(why)).chain(doom).collect()))
    }
}

impl Capture {
    fn restart(&mut self) {
        (self.issued, self.running, self.doom) = (0, 0, None);
        self.numbers.clear();
    }

    fn entry(&self, command: &Command) -> (Entry, BTreeMap<Mem, usize>) {
        let mut numbers = self.numbers.clone();
        let mut touches = Vec::new();
        for &(mem, mode) in &command.uses {
            let Some(mem) = mem else { continue };
            let next = numbers.len();
            touches.push((*numbers.entry(mem).or_insert(next), mode));
        }
        let entry = (
            command.name,
            command.value,
            touches,
            command.makes.is_some(),
        );
        (entry, numbers)
    }
}

/// Commands.
impl Model {
    /// With what a command is refused: any of these.
    pub fn faults(&self, caller: u64, command: &Command) -> Vec<Kind> {
        let route = self.route(caller);
        if route == Route::Refused {
            // It is the pool that says so, when all of the work is marked (N8).
            return Vec::new();
        }
        let capture = self.slot(caller).capture.as_ref();
        let window = capture.filter(|_| route == Route::Records);
        if let Some(doom) = window.and_then(|window| window.doom) {
            return vec![doom]; // L8
        }
        let mut faults = Vec::new();
        if command.mismatch {
            faults.push(Kind::of("LengthMismatch"));
        }
        for (place, &(mem, mode)) in command.uses.iter().enumerate() {
            let Some(mem) = mem else {
                faults.push(Kind::of("OtherDevice")); // M10
                continue;
            };
            if command.uses[..place]
                .iter()
                .any(|&(other, _)| other == Some(mem))
            {
                faults.push(Kind::of("Aliased"));
            }
            // M11; in a window it is for the replay to refuse, since a neighbour may have marked it (N9).
            if let Some(first) = self.memories[mem].mark
                && mode != Mode::Write
                && window.is_none()
            {
                faults.push(Kind("Marked", Some(first)));
            }
        }
        if let Some(window) = window
            && faults.is_empty()
            && window.warm_up.get(window.issued) != Some(&window.entry(command).0)
        {
            faults.push(Kind::of("Diverged")); // L9
        }
        faults
    }

    /// A command was issued.
    pub fn issued(&mut self, caller: u64, command: &Command, outcome: Result<(), Kind>) {
        let route = self.route(caller);
        let own = matches!(route, Route::WarmUp | Route::Records);
        if let Err(kind) = outcome {
            if own && let Some(capture) = &mut self.slot_mut(caller).capture {
                capture.issued += 1;
            }
            if kind.is("Diverged") && route == Route::Records {
                if let Some(capture) = &mut self.slot_mut(caller).capture {
                    capture.doom.get_or_insert(kind);
                }
            } else {
                self.fail(caller, kind.0);
            }
            // M11: outside a window, what it should have written is marked.
            if route != Route::Records {
                self.mark(command.written(), kind.cause());
            }
            return;
        }
        if route == Route::Refused {
            let refusal = self.refusal(caller);
            return self.mark(command.written(), refusal.cause());
        }
        if own && let Some(capture) = &mut self.slot_mut(caller).capture {
            let (entry, mut numbers) = capture.entry(command);
            let next = numbers.len();
            numbers.extend(command.makes.map(|made| (made, next)));
            capture.numbers = numbers;
            capture.issued += 1;
            capture.running += usize::from(command.name != "alloc");
            if route == Route::WarmUp {
                capture.warm_up.push(entry);
            }
            if let Some(program) = &mut capture.program {
                program.record(command);
            }
        }
        if route == Route::Records {
            // M13, N10: before a replay there is nothing to read.
            self.mark(command.makes, "NotReplayed");
            return;
        }
        if let Some(effect) = command.effect {
            self.apply(effect);
        }
        for mem in command.written() {
            self.memories[mem].mark = None;
        }
    }

    pub fn mark(&mut self, memories: impl IntoIterator<Item = Mem>, cause: &'static str) {
        for mem in memories {
            self.memories[mem].mark = Some(cause);
        }
    }

    fn apply(&mut self, effect: Effect) {
        let data = |mem: Mem| self.memories[mem].data;
        let (to, result) = match effect {
            Effect::Set(to, data) => (to, data),
            Effect::Copy(from, to) => (to, data(from)),
            Effect::Add(from, to) => (to, data(from).map(|x| x + 1.0)),
            Effect::Accumulate(from, to) => {
                let ([a, b], [c, d]) = (data(from), data(to));
                (to, [a + c, b + d])
            }
            Effect::Boom(to) => (to, data(to)),
        };
        self.memories[to].data = result;
    }

    /// Memory for an allocation, should it go well.
    pub fn allocate(&mut self) -> Mem {
        let (data, mark) = ([0.0; 2], None);
        self.memories.push(Memory { data, mark });
        self.memories.len() - 1
    }

    pub fn unreadable(&self, mem: Mem) -> Option<Kind> {
        self.memories[mem]
            .mark
            .map(|first| Kind("Marked", Some(first)))
    }
}

impl Command {
    fn written(&self) -> impl Iterator<Item = Mem> {
        let writes = |&(mem, mode): &(Option<Mem>, Mode)| mem.filter(|_| mode != Mode::Read);
        let used: Vec<_> = self.uses.iter().filter_map(writes).collect();
        used.into_iter().chain(self.makes)
    }
}

impl Program {
    fn record(&mut self, command: &Command) {
        for &(mem, mode) in &command.uses {
            let Some(mem) = mem else { continue };
            if mode != Mode::Write && !self.written.contains(&mem) {
                self.inputs.insert(mem);
            }
        }
        self.written.extend(command.written());
        self.effects.extend(command.effect);
    }

    pub fn panics(&self) -> bool {
        self.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Boom(_)))
    }
}

/// Graphs.
impl Model {
    /// M11: why a replay is refused, whoever asks.
    pub fn replay_faults(&self, graph: usize) -> Vec<Kind> {
        let inputs = self.graphs[graph]
            .iter()
            .flat_map(|graph| &graph.program.inputs);
        inputs.filter_map(|&mem| self.unreadable(mem)).collect()
    }

    pub fn replayed(&mut self, graph: usize, outcome: Result<(), &'static str>) {
        let Some(Graph { program, .. }) = &self.graphs[graph] else {
            return;
        };
        let program = program.clone();
        match outcome {
            Ok(()) => {
                program
                    .effects
                    .iter()
                    .for_each(|&effect| self.apply(effect));
                for mem in program.written {
                    self.memories[mem].mark = None;
                }
            }
            Err(cause) => self.mark(program.written, cause), // N10
        }
    }
}
