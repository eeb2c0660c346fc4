//! Makes each call on the pool and on the model, and compares the answers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use graph_capture::host::{Fault, Step, When};
use graph_capture::server::{CaptureEnd, GraphId, Neighbours, StreamPool};
use graph_capture::{Backend, Buffer, Commands, Download, Error, PhaseName, Stream, StreamId};

use super::calls::{CALLERS, Call, Fate, Script, Sequence, Verb};
use super::kinds::Kind;
use super::model::{Abandoned, Command, Counts, Data, Effect, Mem, Mode, Model, Phase, Route};

/// What the model needs of a backend.
pub trait Device: Backend {
    fn device(faults: &[(Step, usize, When)]) -> Self;
    fn add(c: &Commands<Self>, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error>;
    fn accumulate(c: &Commands<Self>, x: &Pair<Self>, y: &Pair<Self>) -> Result<(), Error>;

    /// A kernel that panics; `false` where there can be none.
    fn boom(c: &Commands<Self>, y: &Pair<Self>) -> Option<Result<(), Error>>;
}

/// A buffer of two numbers.
pub type Pair<B> = Buffer<f32, B>;
type Held<B> = (Pair<B>, Mem);

/// A command with its operands: what a warm-up submits, to be submitted again.
#[derive(Clone)]
struct Act<B: Device> {
    verb: Verb,
    operands: Vec<Held<B>>,
}

#[derive(Clone)]
struct Plan<B: Device> {
    acts: Vec<Act<B>>,
    fate: Fate,
}

/// What a caller has submitted in its warm-up, and how much of it in its window.
struct Plans<B: Device> {
    plans: Vec<Plan<B>>,
    next: usize,
}

impl<B: Device> Default for Plans<B> {
    fn default() -> Self {
        Self {
            plans: Vec::new(),
            next: 0,
        }
    }
}

pub struct World<B: Device> {
    pool: StreamPool<B>,
    model: Model,
    destroys: bool,
    buffers: Vec<Held<B>>,
    plans: BTreeMap<u64, Plans<B>>,
    graphs: Vec<GraphId>,
    /// Copies, and of which recording.
    downloads: Vec<(Download<f32>, Option<usize>, Mem)>,
    of_another_device: Pair<B>,
}

/// How often each call was made in each phase, by the owner or by another.
pub type Reached = BTreeMap<(&'static str, Phase, bool), usize>;

/// How a call came out: an answer, an error, or a panic.
type Outcome<R> = Result<Result<R, Error>, ()>;

fn caught<R>(call: impl FnOnce() -> Result<R, Error>) -> Outcome<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(drop)
}

/// Without the hook, which would print.
fn panics() -> ! {
    resume_unwind(Box::new("a panic of the caller's"))
}

/// Whether the device was told to fail: that the model cannot know.
fn is_ordered(error: &Error) -> bool {
    matches!(error, Error::Driver { source, .. } if source.is::<Fault>())
}

#[track_caller]
fn agree<R>(expected: &[Kind], result: &Result<R, Error>) -> Result<(), Kind> {
    match result {
        Ok(_) => {
            assert!(expected.is_empty(), "it was Ok, and not {expected:?}");
            Ok(())
        }
        Err(error) => {
            let kind = Kind::from(error);
            let ordered = expected.is_empty() && is_ordered(error);
            assert!(
                ordered || expected.contains(&kind),
                "not {expected:?}, but {error:?}"
            );
            Err(kind)
        }
    }
}

#[track_caller]
fn assert_abandoned(expected: Option<Abandoned>, end: Option<CaptureEnd>) {
    let told = end.map(|end| {
        let owner = end.owner();
        let report = end.into_result().unwrap_err();
        let Error::Several(reports) = report else {
            panic!("{report:?}");
        };
        (owner, reports.iter().map(Kind::from).collect::<Vec<_>>())
    });
    let expected = expected.map(|(owner, kinds)| (StreamId::new(owner), kinds));
    assert_eq!(told, expected);
}

/// Runs a sequence on a new pool, and notes what it reached.
pub fn run<B: Device>(sequence: &Sequence, reached: &mut Reached) {
    let device = B::device(&sequence.faults);
    let other = Stream::on(&B::device(&[])).unwrap();
    let mut pool = StreamPool::new(device.clone(), 2).unwrap();
    if sequence.divert {
        pool = pool.with_neighbours(Neighbours::Divert);
    }
    if sequence.destroys {
        pool = pool.with_graphs_destroyed_on_disconnect();
    }
    let mut world = World {
        pool,
        model: Model {
            divert: sequence.divert,
            ..Model::default()
        },
        destroys: sequence.destroys,
        buffers: Vec::new(),
        plans: BTreeMap::new(),
        graphs: Vec::new(),
        downloads: Vec::new(),
        of_another_device: other.upload(&[1.0, 2.0]).unwrap(),
    };
    for number in 0..4 {
        world.first_buffer([number as f32, 10.0]);
    }
    for (caller, call) in &sequence.calls {
        world.call(*caller, call, reached);
        world.look();
    }
    world.finish();
    device.captures().trim().unwrap();
    let memory = device.captures().memory();
    let held = [memory.in_use, memory.held_by_graphs, memory.waiting];
    assert_eq!(held, [0; 3], "{memory:?}");
    assert!(!device.captures().status().any_active());
}

impl<B: Device> World<B> {
    fn first_buffer(&mut self, data: Data) {
        let mem = self.model.allocate();
        let made = loop {
            match self.pool.submit(StreamId::new(0), |c| c.upload(&data)) {
                Ok(made) => break made,
                Err(error) => assert!(is_ordered(&error), "{error:?}"),
            }
        };
        self.model.memories[mem].data = data;
        self.buffers.push((made, mem));
    }

    /// Lets what is under way come to its end, and everything go.
    fn finish(mut self) {
        let callers = || (0..CALLERS).map(StreamId::new);
        for caller in callers() {
            let _ = self.pool.disconnect(caller).unwrap();
        }
        for caller in callers() {
            while let Err(error) = self.pool.synchronize(caller) {
                assert!(is_ordered(&error), "{error:?}");
            }
        }
    }

    /// What is always answered (N5): phases, owners, the record, marks.
    fn look(&self) {
        let (pool, model) = (&self.pool, &self.model);
        for caller in 0..CALLERS {
            let id = StreamId::new(caller);
            let phase = match model.phase(caller) {
                Phase::Idle => PhaseName::Idle,
                Phase::WarmUp => PhaseName::WarmUp,
                Phase::Window => PhaseName::Window,
            };
            assert_eq!(pool.phase(id), phase);
            assert_eq!(pool.owner(id), model.owner(caller).map(StreamId::new));
            assert_eq!(pool.status().is_capturing(id), model.owns(caller));
        }
        assert_eq!(pool.status().any_recording(), model.is_recording());
        for (buffer, mem) in &self.buffers {
            let expected: Vec<_> = model.unreadable(*mem).into_iter().collect();
            let _ = agree(&expected, &pool.check(buffer));
        }
        let counts = pool.counts();
        let counted = Counts {
            sealed: counts.sealed,
            failed: counts.failed,
            abandoned: counts.abandoned,
            replays: counts.replays,
            refused: counts.refused,
            diverted: counts.diverted,
        };
        assert_eq!(counted, model.counts);
        for (id, graph) in self.graphs.iter().zip(&model.graphs) {
            assert_eq!(pool.graph(*id).is_some(), graph.is_some());
        }
    }

    fn call(&mut self, caller: u64, call: &Call, reached: &mut Reached) {
        let id = StreamId::new(caller);
        let works = matches!(
            call,
            Call::Submit(..)
                | Call::Write(..)
                | Call::Read(_)
                | Call::ReadInto(_)
                | Call::Synchronize
                | Call::Completion
                | Call::Profile(_)
        );
        let possible = match call {
            Call::Replay(_) | Call::Destroy(_) => !self.graphs.is_empty(),
            Call::ReadDownload(..) => !self.graphs.is_empty() && !self.downloads.is_empty(),
            _ => true,
        };
        if !possible {
            return;
        }
        if !matches!(call, Call::Drop(_)) {
            self.model.expire();
        }
        if let Some(name) = name(call) {
            let (phase, owns) = (self.model.phase(caller), self.model.owns(caller));
            *reached.entry((name, phase, owns)).or_default() += 1;
        }
        self.model.counts.diverted += u64::from(works && self.model.diverts(caller));
        match call {
            Call::Prepare(due) => {
                let free = self.model.phase(caller) == Phase::Idle;
                let expected = (!free).then(|| self.model.refusal(caller));
                let limit = due.then_some(Duration::ZERO);
                let prepared = self.pool.prepare_at_most(id, limit);
                if self.answer(expected.as_slice(), &prepared).is_ok() {
                    self.model.prepare(caller, *due);
                    self.plans.insert(caller, Plans::default());
                }
            }
            Call::Again => {
                let warms_up = self.model.route(caller) == Route::WarmUp;
                let expected = (!warms_up).then(|| self.model.refusal(caller));
                let again = self.pool.again(id);
                if self.answer(expected.as_slice(), &again).is_ok() {
                    self.model.again(caller);
                    self.plans.insert(caller, Plans::default());
                }
            }
            Call::Begin => self.begin(caller),
            Call::End => self.end(caller),
            Call::Abort => {
                let notice = self.model.tell(caller);
                let aborted = self.pool.abort(id);
                if agree(notice.as_slice(), &aborted).is_ok() {
                    let expected = if self.model.owns(caller) {
                        self.model.give_up(caller);
                        None
                    } else {
                        self.model.discard(caller, "Abandoned")
                    };
                    assert_abandoned(expected, aborted.unwrap());
                }
            }
            Call::Disconnect => {
                let expected = self.model.disconnect(caller);
                assert_abandoned(expected, self.pool.disconnect(id).unwrap());
                if self.destroys {
                    for graph in &mut self.model.graphs {
                        graph.take_if(|graph| graph.owner == caller);
                    }
                }
            }
            Call::Capture(script) => self.capture(caller, script),
            Call::Submit(script, repeat) => {
                let plan = self.next_plan(caller, script, *repeat);
                self.submit(caller, &plan);
            }
            Call::Write(to, value, bad) => {
                let Some((buffer, mem)) = self.pick(*to) else {
                    return;
                };
                let data = [f32::from(*value), 1.0, 2.0];
                let data = &data[..if *bad { 3 } else { 2 }];
                let command = write(mem, [f32::from(*value), 1.0], *bad);
                let refused = self.model.route(caller) == Route::Refused;
                let expected = match refused {
                    true => vec![self.model.refusal(caller)],
                    false => self.model.faults(caller, &command),
                };
                let written = self.pool.write(id, &buffer, data);
                let outcome = self.answer(&expected, &written);
                let outcome = if refused { Ok(()) } else { outcome };
                self.model.issued(caller, &command, outcome);
            }
            Call::Read(from) => {
                let Some((buffer, mem)) = self.pick(*from) else {
                    return;
                };
                let expected = self.model.wait_faults(caller);
                let expected = expected.or_else(|| self.model.unreadable(mem));
                let read = self.pool.read(id, &buffer);
                if self.waited(caller, expected.as_slice(), &read) {
                    // N8: never old bytes with `Ok`.
                    assert_eq!(read.unwrap(), self.model.memories[mem].data);
                }
            }
            Call::ReadInto(from) => {
                let Some((buffer, mem)) = self.pick(*from) else {
                    return;
                };
                let expected = self.model.wait_faults(caller);
                let expected = expected.or_else(|| self.model.unreadable(mem));
                let mut into = [0.0; 2];
                let read = self.pool.read_into(id, &buffer, &mut into);
                if self.waited(caller, expected.as_slice(), &read) {
                    assert_eq!(into, self.model.memories[mem].data);
                }
            }
            Call::Completion => {
                let expected = self.model.wait_faults(caller);
                let marked = self.pool.completion(id);
                if self.waited(caller, expected.as_slice(), &marked) {
                    let done = marked.unwrap().wait(Duration::from_secs(60));
                    assert!(done.unwrap());
                }
            }
            Call::Synchronize => {
                let expected = self.model.wait_faults(caller);
                let waited = self.pool.synchronize(id);
                self.waited(caller, expected.as_slice(), &waited);
            }
            Call::Profile(script) => self.profile(caller, script),
            Call::Replay(number) => self.replay(caller, *number),
            Call::ReadDownload(graph, download) => self.read_download(caller, *graph, *download),
            Call::Destroy(number) => {
                let Some(at) = pick(self.graphs.len(), *number) else {
                    return;
                };
                let of_another = self.model.graphs[at].as_ref();
                let of_another = of_another.is_some_and(|graph| graph.owner != caller);
                let expected = match self.model.route(caller) {
                    Route::Records => Some(Kind::of("OutOfOrder")),
                    _ => of_another.then(|| Kind::of("NotYourGraph")),
                };
                let destroyed = self.pool.destroy(id, self.graphs[at]);
                if self.answer(expected.as_slice(), &destroyed).is_ok() {
                    self.model.graphs[at] = None;
                }
            }
            Call::Drop(number) => {
                if self.buffers.len() > 2
                    && let Some(at) = pick(self.buffers.len(), *number)
                {
                    self.buffers.swap_remove(at);
                }
            }
            Call::Trim => {
                let recording = self.model.is_recording();
                let expected = recording.then(|| Kind::of("TrimWhileRecording"));
                let _ = agree(expected.as_slice(), &self.pool.trim());
            }
            Call::TakeExpired => {
                let expected = self.model.slots.iter_mut();
                let expected = expected.filter_map(|slot| slot.expired.take());
                let mut taken = self.pool.take_expired().into_iter();
                for expected in expected {
                    assert_abandoned(Some(expected), taken.next());
                }
                assert!(taken.next().is_none());
            }
        }
    }

    /// The answer of a call, which is counted if it is that a capture is in the way.
    #[track_caller]
    fn answer<R>(&mut self, expected: &[Kind], result: &Result<R, Error>) -> Result<(), Kind> {
        let answer = agree(expected, result);
        let refused = |kind: Kind| kind.is("OutOfOrder") || kind.is("Neighbour");
        self.model.counts.refused += u64::from(answer.is_err_and(refused));
        answer
    }

    /// A wait came back: one that the device failed is one of the warm-up (L14).
    #[track_caller]
    fn waited<R>(&mut self, caller: u64, expected: &[Kind], result: &Result<R, Error>) -> bool {
        let waited = self.answer(expected, result);
        if waited.is_err_and(|kind| kind.is("Driver")) && self.model.route(caller) == Route::WarmUp
        {
            self.model.fail(caller, "Driver");
        }
        waited.is_ok()
    }

    fn pick(&self, number: u8) -> Option<Held<B>> {
        pick(self.buffers.len(), number).map(|at| self.buffers[at].clone())
    }

    fn begin(&mut self, caller: u64) {
        let begun = self.pool.begin(StreamId::new(caller));
        if let Some(notice) = self.model.tell(caller) {
            let _ = agree(&[notice], &begun);
            return;
        }
        if self.model.route(caller) != Route::WarmUp {
            let _ = self.answer(&[self.model.refusal(caller)], &begun);
            return;
        }
        let expected = self.model.begin_faults(caller);
        match agree(expected.as_slice(), &begun) {
            Ok(()) => self.model.begin(caller),
            Err(_) => {
                self.model.counts.failed += 1;
                self.model.give_up(caller); // L2
            }
        }
    }

    fn end(&mut self, caller: u64) {
        let ended = self.pool.end(StreamId::new(caller));
        if let Some(notice) = self.model.tell(caller) {
            let _ = agree(&[notice], &ended);
            return;
        }
        if self.model.phase(caller) != Phase::Window {
            let _ = self.answer(&[self.model.refusal(caller)], &ended);
            return;
        }
        if !self.model.owns(caller) {
            let expected = self.model.discard(caller, "Abandoned");
            return assert_abandoned(expected, Some(ended.unwrap()));
        }
        let expected = self.model.end_faults(caller);
        if agree(&expected, &ended).is_err() {
            self.model.counts.failed += 1;
            return self.model.give_up(caller); // L3
        }
        self.model.counts.sealed += 1;
        let CaptureEnd::Owned { owner, graph } = ended.unwrap() else {
            panic!("its owner ended it");
        };
        assert_eq!(owner, StreamId::new(caller));
        let sealed = self.model.seal(caller);
        assert!(!self.graphs.contains(&graph), "N11");
        self.graphs.push(graph);
        self.model.graphs.push(sealed);
    }

    /// The operands of a script, as they are now.
    fn plan(&self, script: &Script) -> Plan<B> {
        let act = |&verb: &Verb| {
            let numbers: Vec<u8> = match verb {
                Verb::Write(to, _) | Verb::Fill(to, _) => vec![to],
                Verb::BadWrite(x) | Verb::Alias(x) | Verb::Download(x) | Verb::Boom(x) => vec![x],
                Verb::Derive(from, _) => vec![from],
                Verb::Copy(from, to) | Verb::Add(from, to) | Verb::Accumulate(from, to) => {
                    vec![from, to]
                }
                Verb::Foreign => Vec::new(),
            };
            let operands = numbers.into_iter().filter_map(|number| self.pick(number));
            let operands = operands.collect();
            Act { verb, operands }
        };
        Plan {
            acts: script.verbs.iter().map(act).collect(),
            fate: script.fate,
        }
    }

    /// What to submit: in the caller's window rather what its warm-up did.
    fn next_plan(&mut self, caller: u64, script: &Script, repeat: bool) -> Plan<B> {
        let fresh = self.plan(script);
        let (route, plans) = (
            self.model.route(caller),
            self.plans.entry(caller).or_default(),
        );
        match route {
            Route::WarmUp => plans.plans.push(fresh.clone()),
            Route::Records if repeat => {
                plans.next += 1;
                return plans.plans.get(plans.next - 1).cloned().unwrap_or(fresh);
            }
            _ => {}
        }
        fresh
    }

    fn submit(&mut self, caller: u64, plan: &Plan<B>) {
        let refused = self.model.route(caller) == Route::Refused;
        let Self { pool, model, .. } = self;
        let mut made = Made::default();
        let other = &self.of_another_device;
        let outcome = caught(|| {
            pool.submit(StreamId::new(caller), |c| {
                play(c, model, caller, plan, other, &mut made)
            })
        });
        self.closed(caller, plan, outcome, refused);
        self.keep(made);
    }

    /// A closure has come back through the pool.
    #[track_caller]
    fn closed<R>(&mut self, caller: u64, plan: &Plan<B>, outcome: Outcome<R>, refused: bool) {
        let booms = plan
            .acts
            .iter()
            .any(|act| matches!(act.verb, Verb::Boom(_)));
        match outcome {
            Err(()) => {
                assert!(plan.fate == Fate::Panics || booms, "nobody panicked");
                self.model.fail(caller, "Panicked"); // N6
            }
            Ok(result) if refused => {
                let _ = self.answer(&[self.model.refusal(caller)], &result); // N8
            }
            Ok(Err(error)) => self.model.fail(caller, Kind::from(&error).0), // N6
            Ok(Ok(_)) => {
                assert!(matches!(plan.fate, Fate::Swallows | Fate::Propagates));
            }
        }
    }

    fn keep(&mut self, made: Made<B>) {
        self.buffers.extend(made.buffers);
        self.downloads.extend(made.downloads);
    }

    fn profile(&mut self, caller: u64, script: &Script) {
        let plan = self.plan(script);
        if self.model.route(caller) == Route::WarmUp {
            let plans = self.plans.entry(caller).or_default();
            plans.plans.push(plan.clone());
        }
        let expected = self.model.wait_faults(caller);
        let Self { pool, model, .. } = self;
        let (mut made, ran) = (Made::default(), Cell::new(None));
        let other = &self.of_another_device;
        let outcome = caught(|| {
            pool.profile(StreamId::new(caller), |c| {
                ran.set(Some(false));
                let played = play(c, model, caller, &plan, other, &mut made);
                ran.set(Some(played.is_ok()));
                played
            })
        });
        match (ran.get(), outcome) {
            // Refused, or the first wait failed: nothing of it ran (N5).
            (None, Ok(result)) => {
                assert!(result.is_err());
                self.waited(caller, expected.as_slice(), &result);
            }
            // The last wait failed.
            (Some(true), Ok(result)) => {
                self.waited(caller, &[], &result);
            }
            (_, outcome) => self.closed(caller, &plan, outcome, false),
        }
        self.keep(made);
    }

    /// The short form: the closure twice, and no capture is left, however it goes.
    fn capture(&mut self, caller: u64, script: &Script) {
        let plan = self.plan(script);
        let free = self.model.phase(caller) == Phase::Idle;
        let refusal = (!free).then(|| self.model.refusal(caller));
        let Self { pool, model, .. } = self;
        let (mut made, mut passes) = (Made::default(), 0);
        let other = &self.of_another_device;
        let outcome = caught(|| {
            pool.capture(StreamId::new(caller), |c| {
                passes += 1;
                if passes == 1 {
                    model.prepare(caller, false);
                } else {
                    assert!(model.begin_faults(caller).is_none());
                    model.begin(caller);
                }
                let played = play(c, model, caller, &plan, other, &mut made);
                if let Err(error) = &played {
                    model.fail(caller, Kind::from(error).0);
                }
                played
            })
        });
        if let Some(refusal) = refusal {
            assert_eq!(passes, 0);
            let _ = self.answer(&[refusal], &outcome.unwrap());
            return;
        }
        // A new capture was accepted (N4), or the driver refused it.
        if passes > 0 {
            self.model.forget(caller);
        }
        let result = match outcome {
            Err(()) => {
                assert!(passes > 0);
                self.model.counts.failed += 1;
                self.model.give_up(caller);
                return self.keep(made);
            }
            Ok(result) => result,
        };
        let fails = plan.fate == Fate::Fails;
        let expected = match passes {
            0 => Vec::new(),
            _ if fails => vec![Kind::of("Step")],
            1 => self.model.begin_faults(caller).into_iter().collect(),
            _ => self.model.end_faults(caller),
        };
        match agree(&expected, &result) {
            Ok(()) => {
                self.model.counts.sealed += 1;
                let sealed = self.model.seal(caller);
                self.graphs.push(result.unwrap().0);
                self.model.graphs.push(sealed);
            }
            Err(_) => {
                self.model.counts.failed += 1;
                self.model.give_up(caller);
            }
        }
        self.keep(made);
    }

    fn replay(&mut self, caller: u64, number: u8) {
        let Some(at) = pick(self.graphs.len(), number) else {
            return;
        };
        let Some(graph) = &self.model.graphs[at] else {
            let replayed = self.pool.replay(StreamId::new(caller), self.graphs[at]);
            let _ = agree(&[Kind::of("UnknownGraph")], &replayed);
            return;
        };
        let panics = graph.program.panics();
        self.model.counts.diverted += u64::from(self.model.diverts(caller));
        let refusal = self.model.wait_faults(caller);
        let expected = match refusal {
            Some(refusal) => vec![refusal],
            None => self.model.replay_faults(at),
        };
        let (pool, id) = (&mut self.pool, self.graphs[at]);
        match caught(|| pool.replay(StreamId::new(caller), id)) {
            Err(()) => {
                assert!(panics && expected.is_empty());
                self.model.fail_wait(caller, "Panicked");
                self.model.replayed(at, Err("Panicked"));
            }
            Ok(replayed) => {
                let outcome = self.answer(&expected, &replayed);
                self.model.counts.replays += u64::from(outcome.is_ok());
                if outcome.is_err_and(|kind| kind.is("Driver")) {
                    self.model.fail_wait(caller, "Driver");
                }
                assert!(outcome.is_err() || !panics);
                self.model.replayed(at, outcome.map_err(Kind::cause));
            }
        }
    }

    fn read_download(&mut self, caller: u64, graph: u8, download: u8) {
        let graph = pick(self.graphs.len(), graph);
        let download = pick(self.downloads.len(), download);
        let Some((at, which)) = graph.zip(download) else {
            return;
        };
        let (download, of, mem) = &self.downloads[which];
        let expected = match &self.model.graphs[at] {
            None => Some(Kind::of("UnknownGraph")),
            Some(graph) => self.model.wait_faults(caller).or_else(|| {
                let own = *of == Some(graph.of);
                let foreign = (!own).then(|| Kind::of("ForeignDownload"));
                foreign.or_else(|| match self.model.unreadable(*mem) {
                    Some(marked) if marked.cause() == "NotReplayed" => {
                        Some(Kind::of("NotReplayed"))
                    }
                    other => other,
                })
            }),
        };
        let (mem, id) = (*mem, StreamId::new(caller));
        let known = self.model.graphs[at].is_some();
        self.model.counts.diverted += u64::from(known && self.model.diverts(caller));
        let read = self.pool.read_download(id, self.graphs[at], download);
        let read = read.map(<[f32]>::to_vec);
        if self.waited(caller, expected.as_slice(), &read) {
            assert_eq!(read.unwrap(), self.model.memories[mem].data);
        }
    }
}

impl Model {
    /// A wait of a warm-up failed (L14). Of a window there is none.
    fn fail_wait(&mut self, caller: u64, first: &'static str) {
        if self.route(caller) == Route::WarmUp {
            self.fail(caller, first);
        }
    }
}

/// What a closure leaves behind.
struct Made<B: Device> {
    buffers: Vec<Held<B>>,
    downloads: Vec<(Download<f32>, Option<usize>, Mem)>,
}

impl<B: Device> Default for Made<B> {
    fn default() -> Self {
        Self {
            buffers: Vec::new(),
            downloads: Vec::new(),
        }
    }
}

fn pick(count: usize, number: u8) -> Option<usize> {
    usize::from(number).checked_rem(count)
}

fn name(call: &Call) -> Option<&'static str> {
    Some(match call {
        Call::Prepare(_) => "prepare",
        Call::Again => "again",
        Call::Begin => "begin",
        Call::End => "end",
        Call::Abort => "abort",
        Call::Disconnect => "disconnect",
        Call::Capture(_) => "capture",
        Call::Submit(..) => "submit",
        Call::Write(..) => "write",
        Call::Read(_) => "read",
        Call::ReadInto(_) => "read_into",
        Call::Completion => "completion",
        Call::Synchronize => "synchronize",
        Call::Profile(_) => "profile",
        Call::Replay(_) => "replay",
        Call::ReadDownload(..) => "read_download",
        Call::Destroy(_) => "destroy",
        Call::Drop(_) | Call::Trim | Call::TakeExpired => return None,
    })
}

fn command(name: &'static str, uses: Vec<(Option<Mem>, Mode)>, effect: Option<Effect>) -> Command {
    Command {
        name,
        value: 0,
        uses,
        makes: None,
        mismatch: false,
        effect,
    }
}

fn write(to: Mem, data: Data, mismatch: bool) -> Command {
    let effect = Some(Effect::Set(to, data));
    Command {
        mismatch,
        ..command("write", vec![(Some(to), Mode::Write)], effect)
    }
}

/// Plays a closure on both sides, command by command.
fn play<B: Device>(
    c: &Commands<B>,
    model: &mut Model,
    caller: u64,
    plan: &Plan<B>,
    other: &Pair<B>,
    made: &mut Made<B>,
) -> Result<(), Error> {
    let mut first = Ok(());
    for act in &plan.acts {
        let done = perform(c, model, caller, act, other, made);
        if let (Err(_), Fate::Propagates) = (&done, plan.fate) {
            return done;
        }
        first = first.and(done);
    }
    match plan.fate {
        Fate::Swallows | Fate::Propagates => Ok(()),
        Fate::Fails => Err(Error::step("an error of the caller's own")),
        Fate::Panics => panics(),
    }
}

fn perform<B: Device>(
    c: &Commands<B>,
    model: &mut Model,
    caller: u64,
    act: &Act<B>,
    other: &Pair<B>,
    made: &mut Made<B>,
) -> Result<(), Error> {
    use Mode::{Read, ReadWrite, Write};
    let mut both = |command: Command, issue: &mut dyn FnMut() -> Result<(), Error>| {
        let expected = model.faults(caller, &command);
        let done = issue();
        let outcome = agree(&expected, &done);
        model.issued(caller, &command, outcome);
        done
    };
    match (act.verb, act.operands.as_slice()) {
        (Verb::Write(_, value), [(x, mem)]) => {
            let data = [f32::from(value), 2.0];
            both(write(*mem, data, false), &mut || c.write(x, &data))
        }
        (Verb::BadWrite(_), [(x, mem)]) => {
            both(write(*mem, [0.0; 2], true), &mut || c.write(x, &[0.0; 3]))
        }
        (Verb::Fill(_, value), [(x, mem)]) => {
            let value = f32::from(value);
            let effect = Some(Effect::Set(*mem, [value; 2]));
            let command = Command {
                value: value.to_bits(),
                ..command("fill", vec![(Some(*mem), Write)], effect)
            };
            both(command, &mut || c.fill(x, value))
        }
        (Verb::Copy(..), [(x, from), (y, to)]) => {
            let uses = vec![(Some(*from), Read), (Some(*to), Write)];
            let effect = Some(Effect::Copy(*from, *to));
            both(command("copy", uses, effect), &mut || c.copy(x, y))
        }
        (Verb::Add(..), [(x, from), (y, to)]) => {
            let uses = vec![(Some(*from), Read), (Some(*to), Write)];
            let effect = Some(Effect::Add(*from, *to));
            both(command("add", uses, effect), &mut || B::add(c, x, y))
        }
        (Verb::Accumulate(..), [(x, from), (y, to)]) => {
            let uses = vec![(Some(*from), Read), (Some(*to), ReadWrite)];
            let effect = Some(Effect::Accumulate(*from, *to));
            both(command("accumulate", uses, effect), &mut || {
                B::accumulate(c, x, y)
            })
        }
        (Verb::Alias(_), [(x, mem)]) => {
            let uses = vec![(Some(*mem), Read), (Some(*mem), Write)];
            both(command("add", uses, None), &mut || B::add(c, x, x))
        }
        (Verb::Foreign, []) => {
            let uses = vec![(None, Write)];
            both(command("fill", uses, None), &mut || c.fill(other, 1.0))
        }
        (Verb::Derive(_, keep), [(x, from)]) => derive(c, model, caller, (x, *from), keep, made),
        (Verb::Download(_), [(x, from)]) => download(c, model, caller, (x, *from), made),
        (Verb::Boom(_), [(x, mem)]) => boom(c, model, caller, (x, *mem)),
        _ => Ok(()),
    }
}

/// A new buffer, and a command that writes it.
fn derive<B: Device>(
    c: &Commands<B>,
    model: &mut Model,
    caller: u64,
    (x, from): (&Pair<B>, Mem),
    keep: bool,
    made: &mut Made<B>,
) -> Result<(), Error> {
    let to = model.allocate();
    let allocation = Command {
        makes: Some(to),
        ..command("alloc", Vec::new(), Some(Effect::Set(to, [0.0; 2])))
    };
    let expected = model.faults(caller, &allocation);
    let allocated = c.alloc::<f32>(2);
    // Where the window holds more at once than its warm-up did (M4).
    let lacks = expected.is_empty() && matches!(allocated, Err(Error::PoolExhausted { .. }));
    let outcome = if lacks {
        Err(Kind::of("PoolExhausted"))
    } else {
        agree(&expected, &allocated)
    };
    model.issued(caller, &allocation, outcome);
    let y = allocated?;
    let uses = vec![(Some(from), Mode::Read), (Some(to), Mode::Write)];
    let add = command("add", uses, Some(Effect::Add(from, to)));
    let expected = model.faults(caller, &add);
    let done = B::add(c, x, &y);
    let outcome = agree(&expected, &done);
    model.issued(caller, &add, outcome);
    if keep {
        made.buffers.push((y, to));
    }
    done
}

fn download<B: Device>(
    c: &Commands<B>,
    model: &mut Model,
    caller: u64,
    (x, from): (&Pair<B>, Mem),
    made: &mut Made<B>,
) -> Result<(), Error> {
    let to = model.allocate();
    let uses = vec![(Some(from), Mode::Read)];
    let command = Command {
        makes: Some(to),
        ..command("download", uses, Some(Effect::Copy(from, to)))
    };
    let expected = model.faults(caller, &command);
    let done = c.download(x);
    let lacks = expected.is_empty() && matches!(done, Err(Error::PoolExhausted { .. }));
    let outcome = if lacks {
        Err(Kind::of("PoolExhausted"))
    } else {
        agree(&expected, &done)
    };
    model.issued(caller, &command, outcome);
    let of = model.recording(caller);
    made.downloads.push((done?, of, to));
    Ok(())
}

/// A kernel that panics when it runs.
fn boom<B: Device>(
    c: &Commands<B>,
    model: &mut Model,
    caller: u64,
    (x, mem): (&Pair<B>, Mem),
) -> Result<(), Error> {
    let uses = vec![(Some(mem), Mode::Write)];
    let command = command("boom", uses, Some(Effect::Boom(mem)));
    let expected = model.faults(caller, &command);
    let launched = catch_unwind(AssertUnwindSafe(|| B::boom(c, x)));
    match launched {
        Err(panic) => {
            assert!(expected.is_empty());
            model.issued(caller, &command, Err(Kind::of("Panicked")));
            resume_unwind(panic)
        }
        Ok(None) => Ok(()),
        Ok(Some(done)) => {
            let runs = matches!(model.route(caller), Route::Runs | Route::WarmUp);
            assert!(done.is_err() || !runs, "it ran");
            let outcome = agree(&expected, &done);
            model.issued(caller, &command, outcome);
            done
        }
    }
}
