//! The model, continued: captures, the graphs they seal, and what all of them hold.

use std::collections::BTreeSet;
use std::mem::take;

use super::kinds::Kind;
use super::operations::STREAMS;
use super::rules::{Capture, Mem, Model, Program, State};

/// Captures.
impl Model {
    pub fn prepare(&mut self, stream: usize) {
        self.captures[stream] = Some(Capture::default());
    }

    /// L15: the passes before are forgotten, but for the memory that they had.
    pub fn again(&mut self, stream: usize) {
        if let Some(capture) = &mut self.captures[stream] {
            let needs = capture.needs;
            *capture = Capture {
                needs,
                ..Capture::default()
            };
        }
    }

    pub fn doom(&self, stream: usize) -> Option<Kind> {
        self.captures[stream].as_ref()?.doom
    }

    pub fn any_recording(&self) -> bool {
        self.captures.iter().flatten().any(|c| c.program.is_some())
    }

    pub fn any_active(&self) -> bool {
        self.captures.iter().any(Option::is_some)
    }

    /// Why a window may be refused (L14).
    pub fn begin_faults(&self, stream: usize) -> Vec<Kind> {
        let Some(capture) = &self.captures[stream] else {
            return Vec::new();
        };
        match (capture.doom, capture.issued) {
            (Some(failed), _) => vec![failed],
            (None, 0) => vec![Kind::of("NoWarmUp")],
            _ => Vec::new(),
        }
    }

    pub fn begin(&mut self, stream: usize) {
        let program = self.programs.len();
        self.programs.push(Program::default());
        if let Some(capture) = &mut self.captures[stream] {
            *capture = Capture {
                program: Some(program),
                warm_up: take(&mut capture.warm_up),
                until: take(&mut capture.until),
                most: capture.most,
                needs: capture.needs,
                ..Capture::default()
            };
        }
    }

    /// Why a recording may not seal.
    pub fn end_faults(&self, stream: usize) -> Vec<Kind> {
        let Some(capture) = &self.captures[stream] else {
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

    /// The capture sealed: gives the program of the graph.
    pub fn end(&mut self, stream: usize) -> usize {
        let capture = self.captures[stream].take();
        capture
            .and_then(|capture| capture.program)
            .expect("a window")
    }

    /// The capture ended without a graph, and holds nothing any more.
    pub fn abort(&mut self, stream: usize) {
        if let Some(Some(program)) = self.captures[stream].take().map(|c| c.program) {
            self.programs[program].state = State::Gone;
        }
    }

    /// The recording that a stream has open.
    pub fn program(&self, stream: usize) -> Option<usize> {
        self.captures[stream].as_ref()?.program
    }
}

/// Graphs.
impl Model {
    /// M11: a replay over a marked input is refused.
    pub fn replay_faults(&self, graph: usize) -> Vec<Kind> {
        let inputs = self.programs[graph].inputs.iter();
        inputs.flat_map(|&mem| self.unreadable(mem)).collect()
    }

    pub fn replayed(&mut self, graph: usize, stream: usize, outcome: Result<(), Kind>) {
        let program = &mut self.programs[graph];
        if let Err(kind) = outcome {
            let written = program.written.clone();
            return self.mark(written, kind.cause());
        }
        if self.lazy {
            program.flights.insert(stream);
        }
        let (effects, whole) = (program.effects.clone(), program.written_whole.clone());
        // M9: one submission, with nothing between.
        effects.iter().for_each(|effect| self.apply(effect));
        for mem in whole {
            self.memories[mem].mark = None;
        }
    }

    /// Why a download of the program `of` may not be read from a graph.
    pub fn download_faults(&self, graph: usize, of: Option<usize>, mem: Mem) -> Vec<Kind> {
        if of != Some(graph) {
            return vec![Kind::of("ForeignDownload")];
        }
        let mut faults = self.unreadable(mem);
        // That nothing was replayed, this graph or the one that makes its input, is told as it is.
        for fault in &mut faults {
            if fault.cause() == "NotReplayed" {
                *fault = Kind::of("NotReplayed");
            }
        }
        faults
    }

    /// M8: what a replay in flight uses stays.
    pub fn drop_graph(&mut self, graph: usize) {
        let program = &mut self.programs[graph];
        program.state = if program.flights.is_empty() {
            State::Gone
        } else {
            State::Leaving
        };
    }

    pub fn waited(&mut self, stream: usize) {
        for program in &mut self.programs {
            program.flights.remove(&stream);
            if program.state == State::Leaving && program.flights.is_empty() {
                program.state = State::Gone;
            }
        }
    }

    pub fn in_flight(&self, stream: usize) -> bool {
        let mut held = self.programs.iter();
        held.any(|program| program.state != State::Gone && program.flights.contains(&stream))
    }
}

/// Figures, in bytes.
impl Model {
    /// In memory that somebody has a handle to.
    pub fn in_use(&self) -> usize {
        let used = self.memories.iter().filter(|memory| memory.is_used());
        used.map(|memory| memory.data.len() * 4).sum()
    }

    /// Takes the sum of what is held into the peaks: by handles, graphs and open recordings, and what
    /// passes by.
    pub fn measure(&mut self, passing: usize) {
        let (mut held, mut kept) = (passing, 0);
        for stream in 0..STREAMS {
            let Some(mut capture) = self.captures[stream].take() else {
                continue;
            };
            let there = match capture.program {
                None => {
                    let there = self.there(&capture.own, &capture.downloads);
                    capture.most = there.max(capture.most);
                    capture.needs = there.max(capture.needs);
                    let downloads = capture.downloads.iter();
                    held += downloads
                        .map(|&mem| self.memories[mem].data.len() * 4)
                        .sum::<usize>();
                    there
                }
                Some(at) => {
                    let program = &self.programs[at];
                    let mut there = self.there(&program.born, &program.downloads);
                    if self.drops_early(&capture, program) {
                        // Its memory was set aside before, for what the warm-up had.
                        there = there.max(capture.most);
                    }
                    let scratch = &mut self.programs[at].scratch;
                    *scratch = there.max(*scratch);
                    // M4: while it is open, all that the warm-up had at once is set aside for it.
                    held += capture.most.saturating_sub(*scratch);
                    capture.most.max(*scratch)
                }
            };
            // M3: a window asks the driver for nothing, so what it will need is kept for it.
            kept += capture.needs.saturating_sub(there);
            self.captures[stream] = Some(capture);
        }
        let mut outside: BTreeSet<Mem> = BTreeSet::new();
        for program in &self.programs {
            if program.state != State::Gone {
                outside.extend(&program.outside);
                held += program.scratch;
            }
        }
        for (mem, memory) in self.memories.iter().enumerate() {
            let in_scratch = (memory.born).is_some_and(|at| self.programs[at].state != State::Gone);
            if !in_scratch && (memory.is_used() || outside.contains(&mem)) {
                held += memory.data.len() * 4;
            }
        }
        self.peak = self.peak.max(held);
        self.peak_kept = self.peak_kept.max(held + kept);
    }
}
