//! Captures: by closure, and by hand between the operations of other streams.

use graph_capture::{Error, Graph, NoCapture, Stream, TransitionError};

use super::driver::{Device, Slot, World, agree};
use super::kinds::Kind;
use super::operations::{How, Spec};
use super::steps::{Plan, Step};

type Ended<B> =
    Result<(Stream<NoCapture, B>, Option<Graph<B>>), TransitionError<Stream<NoCapture, B>>>;

impl<B: Device> World<B> {
    /// The pass is over: what it allocated goes, or is kept out of the capture.
    pub fn finish_pass(&mut self, plan: &mut Plan<B>) {
        for (held, keep) in &mut plan.scratch {
            let held = held.take();
            self.buffers.extend(held.filter(|_| *keep));
        }
    }

    pub fn capture(&mut self, stream: usize, specs: &[Spec], how: How) {
        let Some(idle) = self.take_idle(stream) else {
            return self.advance(stream, 2);
        };
        let mut plan = self.plan(specs);
        let count = plan.steps.len();
        let mut pass = 0;
        let mut returned = Ok(());
        self.model.prepare(stream);
        let captured = idle.capture(|c| {
            pass += 1;
            if pass == 2 {
                assert!(self.model.begin_faults(stream).is_empty());
                self.model.begin(stream);
            }
            let mut result = Ok(());
            for at in 0..count {
                // The window takes the last handles that the plan has to what it uses.
                let step = match pass {
                    1 => plan.steps[at].clone(),
                    _ => plan.steps.pop_front().unwrap(),
                };
                let is = |number: u8| usize::from(number) % count == at;
                if how
                    .own_error
                    .is_some_and(|(own, step)| own == pass && is(step))
                {
                    result = Err(Error::step("an error of the closure's own"));
                    break;
                }
                // Another pattern of drops would need more memory than the warm-up did (M4).
                let may_skip = !matches!(step, Step::Drop(_));
                if pass == 2 && may_skip && how.skip.is_some_and(is) {
                    continue;
                }
                let done = self.step(c, stream, &step, &mut plan.scratch);
                if how.propagate && done.is_err() {
                    result = done;
                    break;
                }
            }
            self.finish_pass(&mut plan);
            self.measure();
            returned = result.as_ref().copied().map_err(Kind::from);
            result
        });
        let expected = match returned {
            // The error of the closure's own, or else what failed first (L8).
            Err(kind) if kind.is("Step") => vec![kind],
            Err(_) => self.model.doom(stream).into_iter().collect(),
            Ok(()) if pass == 1 => self.model.begin_faults(stream),
            Ok(()) => self.model.end_faults(stream),
        };
        self.ended(
            stream,
            &expected,
            captured.map(|(idle, graph, ())| (idle, Some(graph))),
        );
    }

    /// A capture ended: with a graph, without, or refused. The stream is usable in any case (L3).
    #[track_caller]
    pub fn ended(&mut self, stream: usize, expected: &[Kind], ended: Ended<B>) {
        let (result, idle) = match ended {
            Ok((idle, graph)) => (Ok(graph), idle),
            Err(refused) => {
                let (error, idle) = refused.into_parts();
                (Err(error), idle)
            }
        };
        let _ = agree(expected, &result);
        match result {
            Ok(Some(graph)) => {
                let program = self.model.end(stream);
                self.graphs.push((graph, program));
            }
            _ => self.model.abort(stream),
        }
        self.slots[stream] = Slot::Idle(idle);
    }

    pub fn prepare(&mut self, stream: usize, specs: &[Spec]) {
        let Some(idle) = self.take_idle(stream) else {
            return self.advance(stream, 2);
        };
        let plan = self.plan(specs);
        self.model.prepare(stream);
        self.slots[stream] = Slot::WarmUp(idle.prepare().unwrap(), plan);
    }

    /// Runs the next steps of a capture by hand.
    pub fn advance(&mut self, stream: usize, steps: usize) {
        match self.take(stream) {
            Slot::WarmUp(prepared, mut plan) => {
                for _ in 0..steps {
                    if let Some(step) = plan.steps.get(plan.done).cloned() {
                        plan.done += 1;
                        let _ = self.step(&prepared, stream, &step, &mut plan.scratch);
                    }
                }
                self.slots[stream] = Slot::WarmUp(prepared, plan);
            }
            Slot::Window(recording, mut plan) => {
                for _ in 0..steps {
                    // Taken out: a buffer from before may be dropped inside the window for good.
                    if let Some(step) = plan.steps.pop_front() {
                        let _ = self.step(&recording, stream, &step, &mut plan.scratch);
                    }
                }
                self.publish(&mut plan);
                self.slots[stream] = Slot::Window(recording, plan);
            }
            _ => {}
        }
    }

    /// What outlives the window can be used by others while it is open. The plan lets go of it when
    /// no later step names it.
    fn publish(&mut self, plan: &mut Plan<B>) {
        for (slot, (held, keep)) in plan.scratch.iter_mut().enumerate() {
            if !*keep {
                continue;
            }
            let Some(published) = held.clone() else {
                continue;
            };
            self.buffers.push(published);
            *keep = false;
            if !plan.steps.iter().any(|step| step.names(slot)) {
                *held = None;
            }
        }
    }

    pub fn begin(&mut self, stream: usize, all: bool) {
        if all {
            self.advance_in(stream, false);
        }
        let slot = match self.take(stream) {
            Slot::WarmUp(prepared, mut plan) => {
                self.finish_pass(&mut plan);
                let expected = self.model.begin_faults(stream);
                match prepared.begin() {
                    Ok(recording) => {
                        assert!(expected.is_empty(), "it began, and not {expected:?}");
                        self.model.begin(stream);
                        Slot::Window(recording, plan)
                    }
                    Err(refused) => return self.ended(stream, &expected, Err(refused)),
                }
            }
            Slot::Taken => return,
            other => other,
        };
        self.slots[stream] = slot;
    }

    fn advance_in(&mut self, stream: usize, window: bool) {
        let here = match &self.slots[stream] {
            Slot::WarmUp(..) => !window,
            Slot::Window(..) => window,
            _ => false,
        };
        if here {
            self.advance(stream, usize::from(u8::MAX));
        }
    }

    pub fn end(&mut self, stream: usize, all: bool) {
        if all {
            self.advance_in(stream, true);
        }
        let slot = match self.take(stream) {
            Slot::Window(recording, mut plan) => {
                self.finish_pass(&mut plan);
                let expected = self.model.end_faults(stream);
                let ended = recording.end().map(|(idle, graph)| (idle, Some(graph)));
                return self.ended(stream, &expected, ended);
            }
            Slot::Taken => return,
            other => other,
        };
        self.slots[stream] = slot;
    }

    pub fn abort(&mut self, stream: usize, by_drop: bool) {
        // Of a lazy driver, the work of a stream that was dropped may never run.
        let by_drop = by_drop && !self.model.in_flight(stream);
        let (aborted, mut plan) = match self.take(stream) {
            Slot::WarmUp(prepared, plan) if by_drop => (drop(prepared), plan).1.aborted(None),
            Slot::WarmUp(prepared, plan) => plan.aborted(Some(prepared.abort())),
            Slot::Window(recording, plan) if by_drop => (drop(recording), plan).1.aborted(None),
            Slot::Window(recording, plan) => plan.aborted(Some(recording.abort())),
            _ => return,
        };
        self.finish_pass(&mut plan);
        let idle = aborted.unwrap_or_else(|| Stream::on(&self.device).unwrap());
        self.ended(stream, &[], Ok((idle, None)));
    }
}

impl<B: Device> Plan<B> {
    fn aborted(self, idle: Option<Stream<NoCapture, B>>) -> (Option<Stream<NoCapture, B>>, Self) {
        (idle, self)
    }
}
