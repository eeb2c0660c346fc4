//! The model: what the rules say of memory, marks, captures and graphs, with nothing of how the crate
//! does it. It is told of every call, in the order of submission (M9), and says beforehand with which
//! errors that may be refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use super::kinds::Kind;
use super::operations::STREAMS;

pub type Mem = usize;

/// Elements of one allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub mem: Mem,
    pub start: usize,
    pub len: usize,
}

impl Span {
    fn overlaps(self, other: Self) -> bool {
        self.mem == other.mem
            && self.start < other.start + other.len
            && other.start < self.start + self.len
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Read,
    Write,
    ReadWrite,
}

/// What a command does to bytes.
#[derive(Debug, Clone)]
pub enum Effect {
    Write(Span, Vec<f32>),
    Copy(Span, Span),
    Add(Span, Span, f32),
    Accumulate(Span, Span),
}

/// A command as it is issued.
#[derive(Debug)]
pub struct Command {
    pub name: &'static str,
    /// Scalars that the comparison of the two runs sees (L9).
    pub value: u32,
    /// `None`: of another device.
    pub uses: Vec<(Option<Span>, Mode)>,
    /// Elements of the memory that it makes.
    pub allocates: Option<usize>,
    /// The two sides differ in length.
    pub mismatch: bool,
    pub effect: Option<Effect>,
}

/// The page that bytes take: at least 16, and else in eight steps a doubling.
pub fn page(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 16).max(16))
}

/// One allocation.
#[derive(Debug)]
pub struct Memory {
    /// NaN where the rules do not say what it is.
    pub data: Vec<f32>,
    /// What kept it from being written (M11).
    pub mark: Option<&'static str>,
    /// Lives as long as any handle.
    pub handles: Weak<()>,
    /// The recording that it was allocated in.
    pub born: Option<usize>,
}

/// A recording, and the graph that it becomes: the commands, and the memory that they hold (M1).
#[derive(Debug, Default)]
pub struct Program {
    pub effects: Vec<Effect>,
    /// From outside, touched.
    pub outside: BTreeSet<Mem>,
    /// What it has allocated, in this order.
    pub born: Vec<Mem>,
    pub downloads: BTreeSet<Mem>,
    /// What a replay reads of before it writes all of it.
    pub inputs: BTreeSet<Mem>,
    pub written: BTreeSet<Mem>,
    pub written_whole: BTreeSet<Mem>,
    /// The most bytes that were there at once of what it allocated: dropped scratch may serve the
    /// same window again, so that is what the graph holds, and not the sum (M2).
    pub scratch: usize,
    /// The streams on which a replay may be in flight (M8).
    pub flights: BTreeSet<usize>,
    pub state: State,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum State {
    #[default]
    Held,
    /// Its graph was dropped, with replays in flight.
    Leaving,
    Gone,
}

/// One command of a run, as the comparison sees it (L9): buffers are numbered by first use.
pub type Entry = (
    &'static str,
    u32,
    Vec<(usize, Mode, usize, usize)>,
    Option<usize>,
);

/// A capture under way.
#[derive(Debug, Default)]
pub struct Capture {
    /// The recording, in the window.
    pub program: Option<usize>,
    pub warm_up: Vec<Entry>,
    pub issued: usize,
    /// Commands that are work (L11).
    pub running: usize,
    pub numbers: BTreeMap<Mem, usize>,
    pub doom: Option<Kind>,
    /// What the warm-up pass has allocated, in this order; of that, downloads stay to its end, since
    /// the recording will need as much (M3).
    pub own: Vec<Mem>,
    pub downloads: BTreeSet<Mem>,
    /// The place of the first allocation after each one's last handle was gone, if there was one.
    pub until: BTreeMap<usize, usize>,
    /// The most bytes that the last pass of the warm-up had at once.
    pub most: usize,
    /// And any pass: kept for the recording (M3).
    pub needs: usize,
}

impl Capture {
    pub fn number(&self, command: &Command) -> (Entry, BTreeMap<Mem, usize>) {
        let mut numbers = self.numbers.clone();
        let mut touches = Vec::new();
        for (span, mode) in &command.uses {
            let Some(span) = span else { continue };
            let next = numbers.len();
            let number = *numbers.entry(span.mem).or_insert(next);
            touches.push((number, *mode, span.start, span.len));
        }
        let entry = (command.name, command.value, touches, command.allocates);
        (entry, numbers)
    }
}

#[derive(Debug, Default)]
pub struct Model {
    /// Whether submitted work runs only when somebody waits.
    pub lazy: bool,
    pub memories: Vec<Memory>,
    pub programs: Vec<Program>,
    pub captures: [Option<Capture>; STREAMS],
    /// The most bytes that were held at once: by handles, by graphs, and by open recordings, for which
    /// is set aside what their warm-ups had at once (M4).
    pub peak: usize,
    /// The same, with what captures under way keep for their recordings.
    pub peak_kept: usize,
    /// Bytes of the largest allocation.
    pub largest: usize,
}

impl Model {
    pub fn new(lazy: bool) -> Self {
        Self {
            lazy,
            ..Self::default()
        }
    }

    /// With which errors a command may be refused. With none it must succeed.
    pub fn faults(&self, stream: usize, command: &Command) -> Vec<Kind> {
        let capture = self.captures[stream].as_ref();
        let window = capture.filter(|capture| capture.program.is_some());
        if let Some(doom) = window.and_then(|window| window.doom) {
            // L8: a doomed recording takes no more commands, and tells why.
            return vec![doom];
        }
        let mut faults = Vec::new();
        if command.mismatch {
            faults.push(Kind::of("LengthMismatch"));
        }
        if command.allocates == Some(0) {
            faults.push(Kind::of("ZeroLength"));
        }
        for (place, &(span, mode)) in command.uses.iter().enumerate() {
            let Some(span) = span else {
                faults.push(Kind::of("OtherDevice")); // M10
                continue;
            };
            // M12: the same memory twice, by overlapping slices, with a write.
            let aliased = command.uses[..place].iter().any(|&(other, before)| {
                (mode != Mode::Read || before != Mode::Read)
                    && other.is_some_and(|other| other.overlaps(span))
            });
            if aliased {
                faults.push(Kind::of("Aliased"));
            }
            // M11. What was allocated in this window is written by the replay before it is read.
            let memory = &self.memories[span.mem];
            let born_here = window.is_some_and(|window| memory.born == window.program);
            if let Some(first) = memory.mark
                && mode != Mode::Write
                && !born_here
            {
                faults.push(Kind("Marked", Some(first)));
            }
        }
        if let Some(window) = window
            && faults.is_empty()
            && window.warm_up.get(window.issued) != Some(&window.number(command).0)
        {
            faults.push(Kind::of("Diverged")); // L9
        }
        faults
    }

    /// Whether an allocation may find no memory: where the recording then has something that its
    /// warm-up had dropped (M4). A program can drop less in the window, or use what it drops in
    /// another (M2).
    pub fn may_lack_memory(&self, stream: usize, command: &Command) -> bool {
        let (Some(capture), Some(_)) = (&self.captures[stream], command.allocates) else {
            return false;
        };
        let Some(program) = capture.program.map(|at| &self.programs[at]) else {
            return false;
        };
        let now = program.born.len();
        let had_gone = |at: &usize| capture.until.get(at).is_some_and(|&until| until <= now);
        let mut gone = (0..now).filter(had_gone);
        gone.any(|at| self.is_there(program.born[at], &program.downloads))
    }

    /// Whether a recording has dropped something that its warm-up had still.
    pub fn drops_early(&self, capture: &Capture, program: &Program) -> bool {
        let now = program.born.len();
        let stayed = |at: &usize| capture.until.get(at).is_none_or(|&until| until > now);
        let mut stayed = (0..now).filter(stayed);
        stayed.any(|at| !self.is_there(program.born[at], &program.downloads))
    }

    /// Whether memory of a run is there: by its handles, as a download, or because another recording
    /// has used it.
    pub fn is_there(&self, mem: Mem, downloads: &BTreeSet<Mem>) -> bool {
        self.memories[mem].is_used() || downloads.contains(&mem) || self.is_shared(mem)
    }

    /// The bytes of memories of a run that are there.
    pub fn there(&self, memories: &[Mem], downloads: &BTreeSet<Mem>) -> usize {
        let there = memories
            .iter()
            .filter(|&&mem| self.is_there(mem, downloads));
        there.map(|&mem| self.memories[mem].data.len() * 4).sum()
    }

    /// Whether a recording that did not allocate it has used it.
    pub fn is_shared(&self, mem: Mem) -> bool {
        self.programs
            .iter()
            .any(|program| program.outside.contains(&mem))
    }

    /// A command was issued. Gives back the memory that it made.
    pub fn issued(
        &mut self,
        stream: usize,
        command: Command,
        outcome: Result<(), Kind>,
    ) -> Option<Mem> {
        if let Err(kind) = outcome {
            self.refused(stream, &command, kind);
            return None;
        }
        let made = command.allocates.map(|len| {
            self.largest = self.largest.max(len * 4);
            let (data, handles) = (vec![f32::NAN; len], Weak::new());
            let (mark, born) = (None, None);
            self.memories.push(Memory {
                data,
                mark,
                handles,
                born,
            });
            self.memories.len() - 1
        });
        let mut program = None;
        if let Some(capture) = &mut self.captures[stream] {
            let (entry, numbers) = capture.number(&command);
            capture.numbers = numbers;
            if let Some(made) = made {
                capture.numbers.insert(made, capture.numbers.len());
            }
            capture.issued += 1;
            capture.running += usize::from(command.name != "alloc");
            program = capture.program;
            if program.is_none() {
                capture.warm_up.push(entry);
                if made.is_some() {
                    let now = capture.own.len();
                    for (at, mem) in capture.own.iter().enumerate() {
                        if !self.memories[*mem].is_used() && !capture.downloads.contains(mem) {
                            capture.until.entry(at).or_insert(now);
                        }
                    }
                }
                capture.own.extend(made);
                if command.name == "download" {
                    capture.downloads.extend(made);
                }
            }
        }
        let mut uses = command.uses.clone();
        uses.extend(made.map(|made| (Some(self.whole(made)), Mode::Write)));
        match program {
            // L10: recorded, and nothing runs.
            Some(program) => self.record(program, command, &uses, made),
            None => {
                self.apply(&command.effect.expect("a command that may succeed"));
                for (span, mode) in uses {
                    let Some(span) = span else { continue };
                    // M11: a successful write clears the mark; M12: of the whole, since marks are.
                    if mode != Mode::Read && span == self.whole(span.mem) {
                        self.memories[span.mem].mark = None;
                    }
                }
            }
        }
        made
    }

    fn refused(&mut self, stream: usize, command: &Command, kind: Kind) {
        let mut runs = true;
        let mut diverged = None;
        if let Some(capture) = &mut self.captures[stream] {
            capture.issued += 1;
            runs = capture.program.is_none();
            let doom = match kind {
                _ if runs => "WarmUpFailed", // L14
                Kind("Diverged", _) => "Diverged",
                _ => "Doomed", // L8
            };
            let first = (doom != "Diverged").then_some(kind.0);
            diverged = capture.program.filter(|_| kind.is("Diverged"));
            capture.doom.get_or_insert(Kind(doom, first));
        }
        // M11: outside a window, what it should have written is marked. In a window it dooms, and
        // nothing would have been written yet.
        if let Some(program) = diverged {
            // It had a place in the recording.
            let named = command.uses.iter().filter_map(|(span, _)| *span);
            let outside = named.filter(|span| self.memories[span.mem].born != Some(program));
            let outside: Vec<_> = outside.map(|span| span.mem).collect();
            self.programs[program].outside.extend(outside);
        }
        if runs {
            self.mark(command.uses.iter().filter_map(written), kind.cause());
        }
    }

    pub fn mark(&mut self, memories: impl IntoIterator<Item = Mem>, cause: &'static str) {
        for mem in memories {
            self.memories[mem].mark = Some(cause);
        }
    }

    fn record(
        &mut self,
        at: usize,
        command: Command,
        uses: &[(Option<Span>, Mode)],
        made: Option<Mem>,
    ) {
        if let Some(made) = made {
            // M11, N10: until the first replay there is nothing to read.
            self.memories[made].mark = Some("NotReplayed");
            self.memories[made].born = Some(at);
            self.programs[at].born.push(made);
            if command.name == "download" {
                self.programs[at].downloads.insert(made);
            }
        }
        for &(span, mode) in uses {
            let Some(span) = span else { continue };
            let whole = span == self.whole(span.mem);
            let program = &mut self.programs[at];
            if !program.born.contains(&span.mem) {
                program.outside.insert(span.mem);
            }
            if mode != Mode::Write && !program.written_whole.contains(&span.mem) {
                program.inputs.insert(span.mem);
            }
            if mode != Mode::Read {
                program.written.insert(span.mem);
                if whole {
                    program.written_whole.insert(span.mem);
                }
            }
        }
        self.programs[at].effects.extend(command.effect);
    }

    pub fn apply(&mut self, effect: &Effect) {
        let (to, data) = match effect {
            Effect::Write(to, data) => (to, data.clone()),
            Effect::Copy(from, to) => (to, self.bytes(*from).to_vec()),
            Effect::Add(x, y, by) => (y, self.bytes(*x).iter().map(|x| x + by).collect()),
            Effect::Accumulate(x, y) => {
                let pairs = self.bytes(*x).iter().zip(self.bytes(*y));
                (y, pairs.map(|(x, y)| y + x).collect())
            }
        };
        let into = &mut self.memories[to.mem].data[to.start..to.start + to.len];
        // A kernel goes as far as the shorter of its buffers.
        into.iter_mut().zip(data).for_each(|(to, from)| *to = from);
    }

    pub fn bytes(&self, span: Span) -> &[f32] {
        &self.memories[span.mem].data[span.start..span.start + span.len]
    }

    pub fn whole(&self, mem: Mem) -> Span {
        let len = self.memories[mem].data.len();
        Span { mem, start: 0, len }
    }

    /// Where the next allocation will be.
    pub fn next(&self, len: usize) -> Span {
        let mem = self.memories.len();
        Span { mem, start: 0, len }
    }

    /// A token that every handle to the memory clones.
    pub fn handle(&mut self, mem: Mem) -> Arc<()> {
        let token = Arc::new(());
        self.memories[mem].handles = Arc::downgrade(&token);
        token
    }

    /// Why a read of it, or a check, must be refused (M11).
    pub fn unreadable(&self, mem: Mem) -> Vec<Kind> {
        let mark = self.memories[mem].mark;
        mark.iter()
            .map(|&first| Kind("Marked", Some(first)))
            .collect()
    }
}

impl Memory {
    pub fn is_used(&self) -> bool {
        self.handles.strong_count() > 0
    }
}

pub fn written((span, mode): &(Option<Span>, Mode)) -> Option<Mem> {
    span.filter(|_| *mode != Mode::Read).map(|span| span.mem)
}
