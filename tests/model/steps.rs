//! Commands with their operands: found, and run on both sides.

use std::collections::VecDeque;
use std::sync::Arc;

use graph_capture::{Commands, Error};

use super::driver::{Device, Floats, World, agree};
use super::kinds::Kind;
use super::operations::{Spec, Verb};
use super::rules::{Command, Effect, Mem, Mode, Span};

/// A handle, on both sides.
pub struct Held<B: Device> {
    pub buffer: Floats<B>,
    pub span: Span,
    pub token: Arc<()>,
}

impl<B: Device> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            span: self.span,
            token: Arc::clone(&self.token),
        }
    }
}

impl<B: Device> Held<B> {
    pub fn slice(&self, start: usize, len: usize) -> Self {
        let span = Span {
            mem: self.span.mem,
            start: self.span.start + start,
            len,
        };
        Self {
            buffer: self.buffer.slice(start..start + len).unwrap(),
            span,
            token: Arc::clone(&self.token),
        }
    }
}

/// A buffer that a step names: from before the capture, or by its place among those of the pass.
#[derive(Clone)]
pub enum Place<B: Device> {
    Outside(Held<B>),
    Scratch(usize),
    OtherDevice,
}

#[derive(Clone)]
pub struct Operand<B: Device> {
    pub place: Place<B>,
    pub start: usize,
    pub len: usize,
}

impl<B: Device> Operand<B> {
    pub fn cut(&self, start: usize, len: usize) -> Self {
        let (place, start) = (self.place.clone(), self.start + start);
        Self { place, start, len }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let key = |operand: &Self| match &operand.place {
            Place::Outside(held) => (0, held.span.mem, held.span.start + operand.start),
            Place::Scratch(slot) => (1, *slot, operand.start),
            Place::OtherDevice => (2, 0, operand.start),
        };
        let (a, b) = (key(self), key(other));
        (a.0, a.1) == (b.0, b.1) && a.2 < b.2 + other.len && b.2 < a.2 + self.len
    }
}

/// A command with its operands.
#[derive(Clone)]
pub enum Step<B: Device> {
    Create {
        slot: usize,
        data: Result<Vec<f32>, usize>,
        keep: bool,
    },
    Drop(usize),
    Write(Operand<B>, Vec<f32>),
    Copy(Operand<B>, Operand<B>),
    Fill(Operand<B>, f32),
    Add(Operand<B>, Operand<B>, f32),
    Accumulate(Operand<B>, Operand<B>),
    Download(Operand<B>),
}

impl<B: Device> Step<B> {
    pub fn names(&self, slot: usize) -> bool {
        let is = |operand: &Operand<B>| matches!(operand.place, Place::Scratch(at) if at == slot);
        match self {
            Self::Create { .. } => false,
            Self::Drop(at) => *at == slot,
            Self::Write(to, _) | Self::Fill(to, _) => is(to),
            Self::Download(from) => is(from),
            Self::Copy(x, y) | Self::Add(x, y, _) | Self::Accumulate(x, y) => is(x) || is(y),
        }
    }
}

/// What a capture runs twice.
pub struct Plan<B: Device> {
    pub steps: VecDeque<Step<B>>,
    /// Steps of the warm-up pass that have run.
    pub done: usize,
    /// What this pass has allocated, and whether it outlives the pass.
    pub scratch: Vec<(Option<Held<B>>, bool)>,
}

/// The place of one of `count`: of the latest more often than of the others.
pub fn pick(count: usize, number: u8) -> Option<usize> {
    let number = usize::from(number);
    count.checked_sub(1 + number * number * count / (1 << 16))
}

/// The part of `len` elements that a number means: all, or a slice of at least one.
pub fn part(len: usize, cut: u8) -> (usize, usize) {
    let cut = usize::from(cut);
    if cut < 150 {
        return (0, len);
    }
    let start = cut % len;
    (start, 1 + (cut / 3) % (len - start))
}

impl<B: Device> World<B> {
    /// Finds the operands. A step that has none is left out.
    pub fn plan(&self, specs: &[Spec]) -> Plan<B> {
        let mut steps = VecDeque::new();
        let mut scratch: Vec<(usize, usize)> = Vec::new();
        let mut slots = 0;
        for spec in specs {
            let operand = |number: u8, cut: u8| {
                let outside = self.buffers.len();
                let at = pick(outside + scratch.len(), number)?;
                let (place, len) = match self.buffers.get(at) {
                    Some(held) => (Place::Outside(held.clone()), held.span.len),
                    None => {
                        let (slot, len) = scratch[at - outside];
                        (Place::Scratch(slot), len)
                    }
                };
                let (start, len) = part(len, cut);
                Some(Operand { place, start, len })
            };
            let data = |len: usize| -> Vec<f32> {
                (0..len).map(|i| f32::from(spec.value) + i as f32).collect()
            };
            match spec.verb {
                Verb::Alloc { len, keep } | Verb::Upload { len, keep } => {
                    let len = if spec.wrong { 0 } else { len };
                    let uploads = matches!(spec.verb, Verb::Upload { .. });
                    let data = if uploads { Ok(data(len)) } else { Err(len) };
                    if len > 0 {
                        scratch.push((slots, len));
                    }
                    let slot = slots;
                    steps.push_back(Step::Create { slot, data, keep });
                    slots += 1;
                    continue;
                }
                Verb::Drop => {
                    if let Some(at) = pick(scratch.len(), spec.to) {
                        steps.push_back(Step::Drop(scratch.remove(at).0));
                    }
                    continue;
                }
                _ => {}
            }
            let Some(to) = operand(spec.to, spec.cut[0]) else {
                continue;
            };
            let foreign = Operand {
                place: Place::OtherDevice,
                start: 0,
                len: 4,
            };
            let value = f32::from(spec.value);
            let bad = usize::from(spec.wrong);
            let one = match spec.verb {
                Verb::Write => Some(Step::Write(to.clone(), data(to.len + bad))),
                Verb::Fill if spec.wrong => Some(Step::Fill(foreign.clone(), value)),
                Verb::Fill => Some(Step::Fill(to.clone(), value)),
                Verb::Download if spec.wrong => Some(Step::Download(foreign.clone())),
                Verb::Download => Some(Step::Download(to.clone())),
                _ => None,
            };
            if let Some(step) = one {
                steps.push_back(step);
                continue;
            }
            // What it reads: where arguments are to be good, no part of what it writes.
            let from = match (spec.wrong, spec.value % 3) {
                (true, 0) => Some(foreign),
                (true, 1) => Some(to.clone()),
                (true, _) => operand(spec.from, spec.cut[1]),
                _ => (0..4)
                    .filter_map(|more| operand(spec.from.wrapping_add(more), spec.cut[1]))
                    .find(|from| !from.overlaps(&to)),
            };
            let Some(from) = from else { continue };
            steps.push_back(match spec.verb {
                Verb::Copy if spec.wrong => Step::Copy(from, to),
                Verb::Copy => {
                    let len = from.len.min(to.len);
                    Step::Copy(from.cut(0, len), to.cut(0, len))
                }
                Verb::Add => Step::Add(from, to, f32::from(spec.value % 3)),
                _ => Step::Accumulate(from, to),
            });
        }
        let scratch = (0..slots).map(|_| (None, false)).collect();
        Plan {
            steps,
            done: 0,
            scratch,
        }
    }

    /// Runs one command, or records it, on both sides. An error is one that the model has too.
    pub fn step(
        &mut self,
        c: &Commands<B>,
        stream: usize,
        step: &Step<B>,
        scratch: &mut [(Option<Held<B>>, bool)],
    ) -> Result<(), Error> {
        // What was never allocated, since the recording is doomed, cannot be used.
        let find = |operand: &Operand<B>| -> Option<(Floats<B>, Option<Span>)> {
            let held = match &operand.place {
                Place::OtherDevice => return Some((self.of_another_device.clone(), None)),
                Place::Outside(held) => held.slice(operand.start, operand.len),
                Place::Scratch(slot) => {
                    scratch[*slot].0.as_ref()?.slice(operand.start, operand.len)
                }
            };
            Some((held.buffer, Some(held.span)))
        };
        let command = |name, uses| Command {
            name,
            value: 0,
            uses,
            allocates: None,
            mismatch: false,
            effect: None,
        };
        match step {
            Step::Drop(slot) => {
                scratch[*slot].0 = None;
                self.measure();
                Ok(())
            }
            Step::Create { slot, data, keep } => {
                let bytes = data.clone().unwrap_or_else(|len| vec![0.0; len]);
                let name = if data.is_ok() { "upload" } else { "alloc" };
                let command = Command {
                    allocates: Some(bytes.len()),
                    effect: Some(Effect::Write(self.model.next(bytes.len()), bytes.clone())),
                    ..command(name, Vec::new())
                };
                let expected = self.model.faults(stream, &command);
                let done = match data {
                    Ok(data) => c.upload(data),
                    Err(len) => c.alloc(*len),
                };
                let made = self.settle(stream, command, &expected, &done);
                let buffer = done?;
                let mem = made.expect("memory of a successful allocation");
                let held = Held {
                    buffer,
                    span: self.model.whole(mem),
                    token: self.model.handle(mem),
                };
                scratch[*slot] = (Some(held), *keep);
                self.measure();
                Ok(())
            }
            Step::Download(from) => {
                let Some((buffer, span)) = find(from) else {
                    return Ok(());
                };
                let to = self.model.next(from.len);
                let command = Command {
                    allocates: Some(from.len),
                    effect: span.map(|span| Effect::Copy(span, to)),
                    ..command("download", vec![(span, Mode::Read)])
                };
                let expected = self.model.faults(stream, &command);
                // It is there while it is taken, if nobody keeps it.
                self.model.measure(from.len * 4);
                let done = c.download(&buffer);
                let made = self.settle(stream, command, &expected, &done);
                let program = self.model.program(stream);
                self.downloads
                    .extend(made.map(|mem| (done.clone().unwrap(), program, mem)));
                self.measure();
                done.map(drop)
            }
            Step::Write(to, data) => {
                let Some((buffer, span)) = find(to) else {
                    return Ok(());
                };
                let command = Command {
                    mismatch: data.len() != to.len,
                    effect: span.map(|span| Effect::Write(span, data.clone())),
                    ..command("write", vec![(span, Mode::Write)])
                };
                self.both(stream, command, || c.write(&buffer, data))
            }
            Step::Fill(to, value) => {
                let Some((buffer, span)) = find(to) else {
                    return Ok(());
                };
                let command = Command {
                    value: value.to_bits(),
                    effect: span.map(|span| Effect::Write(span, vec![*value; to.len])),
                    ..command("fill", vec![(span, Mode::Write)])
                };
                self.both(stream, command, || c.fill(&buffer, *value))
            }
            Step::Copy(from, to) | Step::Add(from, to, _) | Step::Accumulate(from, to) => {
                let (Some((x, source)), Some((y, target))) = (find(from), find(to)) else {
                    return Ok(());
                };
                let spans = source.zip(target);
                let uses = |mode| vec![(source, Mode::Read), (target, mode)];
                match *step {
                    Step::Copy(..) => {
                        let command = Command {
                            mismatch: from.len != to.len,
                            effect: spans.map(|(x, y)| Effect::Copy(x, y)),
                            ..command("copy", uses(Mode::Write))
                        };
                        self.both(stream, command, || c.copy(&x, &y))
                    }
                    Step::Add(_, _, by) => {
                        let command = Command {
                            value: if B::SEES_SCALARS { by.to_bits() } else { 0 },
                            effect: spans.map(|(x, y)| Effect::Add(x, y, by)),
                            ..command("add", uses(Mode::Write))
                        };
                        self.both(stream, command, || B::add(c, &x, &y, by))
                    }
                    _ => {
                        let command = Command {
                            effect: spans.map(|(x, y)| Effect::Accumulate(x, y)),
                            ..command("accumulate", uses(Mode::ReadWrite))
                        };
                        self.both(stream, command, || B::accumulate(c, &x, &y))
                    }
                }
            }
        }
    }

    fn both(
        &mut self,
        stream: usize,
        command: Command,
        issue: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let expected = self.model.faults(stream, &command);
        let done = issue();
        self.settle(stream, command, &expected, &done);
        self.measure();
        done
    }

    #[track_caller]
    pub fn settle<T>(
        &mut self,
        stream: usize,
        command: Command,
        expected: &[Kind],
        done: &Result<T, Error>,
    ) -> Option<Mem> {
        let lacks = [Kind::of("PoolExhausted")];
        let exhausted = matches!(done, Err(Error::PoolExhausted { .. }));
        let may_lack = expected.is_empty() && self.model.may_lack_memory(stream, &command);
        let expected = if exhausted && may_lack {
            &lacks
        } else {
            expected
        };
        let outcome = agree(expected, done);
        self.model.issued(stream, command, outcome)
    }
}
