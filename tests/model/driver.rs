//! Does each operation on the device and in the model, and compares the answers.

use std::mem::replace;
use std::thread;

use graph_capture::{
    Backend, Buffer, Commands, DeviceMemory, Download, Error, Graph, NoCapture, Prepared,
    Recording, Stream,
};

use super::kinds::Kind;
use super::operations::{Operation, STREAMS, Spec, Verb};
use super::rules::{Mem, Model, page};
use super::steps::{Held, Plan, part, pick};

/// What the model needs of a backend.
pub trait Device: Backend<Driver: Send> {
    /// Whether submitted work runs only when somebody waits.
    const LAZY: bool;
    /// Whether the comparison of the two runs sees the scalars of a launch.
    const SEES_SCALARS: bool;

    fn device() -> Self;

    /// `y[i] = x[i] + by`.
    fn add(c: &Commands<Self>, x: &Floats<Self>, y: &Floats<Self>, by: f32) -> Result<(), Error>;

    /// `y[i] += x[i]`.
    fn accumulate(c: &Commands<Self>, x: &Floats<Self>, y: &Floats<Self>) -> Result<(), Error>;
}

pub type Floats<B> = Buffer<f32, B>;

pub enum Slot<B: Device> {
    Idle(Stream<NoCapture, B>),
    WarmUp(Stream<Prepared, B>, Plan<B>),
    Window(Stream<Recording, B>, Plan<B>),
    Taken,
}

/// A recorded copy, the program that it is of, and its memory.
pub type Landing = (Download<f32>, Option<usize>, Mem);

pub struct World<B: Device> {
    pub device: B,
    pub model: Model,
    pub slots: [Slot<B>; STREAMS],
    pub buffers: Vec<Held<B>>,
    pub graphs: Vec<(Graph<B>, usize)>,
    pub downloads: Vec<Landing>,
    pub of_another_device: Floats<B>,
}

#[track_caller]
pub fn agree<T>(expected: &[Kind], result: &Result<T, Error>) -> Result<(), Kind> {
    match result {
        Ok(_) => assert!(expected.is_empty(), "it was Ok, and not {expected:?}"),
        Err(error) => {
            let kind = Kind::from(error);
            assert!(expected.contains(&kind), "not {expected:?}, but {error:?}");
            return Err(kind);
        }
    }
    Ok(())
}

/// Drops it here, or on another thread.
pub fn leave<T: Send + 'static>(value: T, elsewhere: bool) {
    if elsewhere {
        thread::spawn(move || drop(value)).join().unwrap();
    }
}

#[track_caller]
pub fn assert_same(actual: &[f32], model: &[f32]) {
    assert_eq!(actual.len(), model.len());
    let same = |(actual, model): (&f32, &f32)| model.is_nan() || actual == model;
    let equal = actual.iter().zip(model).all(same);
    assert!(equal, "read {actual:?}, but the model has {model:?}");
}

/// Runs a sequence on a new device, and gives everything back.
pub fn run<B: Device>(sequence: &[Operation]) {
    let device = B::device();
    let other = Stream::on(&B::device()).unwrap();
    let mut world = World {
        slots: std::array::from_fn(|_| Slot::Idle(Stream::on(&device).unwrap())),
        device,
        model: Model::new(B::LAZY),
        buffers: Vec::new(),
        graphs: Vec::new(),
        downloads: Vec::new(),
        of_another_device: other.upload(&[1.0; 4]).unwrap(),
    };
    for operation in sequence {
        world.operate(operation);
        world.measure();
    }
    world.give_all_back();
}

impl<B: Device> World<B> {
    fn operate(&mut self, operation: &Operation) {
        match *operation {
            Operation::Command {
                stream,
                ref spec,
                stray,
            } => self.command(stream, spec, stray),
            Operation::Drop { buffer, elsewhere } => {
                if let Some(at) = pick(self.buffers.len(), buffer) {
                    leave(self.buffers.swap_remove(at), elsewhere);
                }
            }
            Operation::Clone { buffer } => {
                let clone = pick(self.buffers.len(), buffer).map(|at| self.buffers[at].clone());
                self.buffers.extend(clone);
            }
            Operation::Slice { buffer, cut } => {
                if let Some(at) = pick(self.buffers.len(), buffer) {
                    let (start, len) = part(self.buffers[at].span.len, cut);
                    self.buffers.push(self.buffers[at].slice(start, len));
                }
            }
            Operation::Read { stream, buffer } => {
                if let Some(at) = pick(self.buffers.len(), buffer) {
                    self.read(stream, at);
                }
            }
            Operation::Check { stream, buffer } => {
                if let Some(at) = pick(self.buffers.len(), buffer) {
                    let held = &self.buffers[at];
                    let expected = self.model.unreadable(held.span.mem);
                    let checked = match &self.slots[stream] {
                        Slot::Idle(stream) => stream.check(&held.buffer),
                        Slot::WarmUp(stream, _) => stream.check(&held.buffer),
                        Slot::Window(stream, _) => stream.check(&held.buffer),
                        Slot::Taken => return,
                    };
                    let _ = agree(&expected, &checked);
                }
            }
            Operation::Capture {
                stream,
                ref plan,
                how,
            } => self.capture(stream, plan, how),
            Operation::Prepare { stream, ref plan } => self.prepare(stream, plan),
            Operation::Again { stream } => {
                self.slots[stream] = match replace(&mut self.slots[stream], Slot::Taken) {
                    Slot::WarmUp(prepared, mut plan) => {
                        self.finish_pass(&mut plan);
                        plan.done = 0;
                        self.model.again(stream);
                        Slot::WarmUp(prepared.again(), plan)
                    }
                    other => other,
                }
            }
            Operation::Advance { stream, steps } => self.advance(stream, steps.into()),
            Operation::Begin { stream, all } => self.begin(stream, all),
            Operation::End { stream, all } => self.end(stream, all),
            Operation::Abort { stream, by_drop } => self.abort(stream, by_drop),
            Operation::Replay {
                stream,
                graph,
                look,
            } => self.replay(stream, graph, look),
            Operation::ReadDownload {
                stream,
                graph,
                download,
            } => self.read_download(stream, graph, download),
            Operation::DropGraph { graph, elsewhere } => {
                if let Some(at) = pick(self.graphs.len(), graph) {
                    let (graph, program) = self.graphs.swap_remove(at);
                    leave(graph, elsewhere);
                    self.model.drop_graph(program);
                }
            }
            Operation::Synchronize { stream } => {
                let synchronized = match &self.slots[stream] {
                    Slot::Idle(stream) => stream.synchronize(),
                    Slot::WarmUp(stream, _) => stream.synchronize(),
                    _ => return,
                };
                synchronized.unwrap();
                self.model.waited(stream);
            }
            Operation::Trim => self.trim(),
        }
    }

    /// Takes what is on a stream, if that is under capture; else leaves it there.
    pub fn take(&mut self, stream: usize) -> Slot<B> {
        match &self.slots[stream] {
            Slot::Idle(_) => Slot::Taken,
            _ => replace(&mut self.slots[stream], Slot::Taken),
        }
    }

    pub fn take_idle(&mut self, stream: usize) -> Option<Stream<NoCapture, B>> {
        match replace(&mut self.slots[stream], Slot::Taken) {
            Slot::Idle(idle) => Some(idle),
            other => {
                self.slots[stream] = other;
                None
            }
        }
    }

    /// M7: the figures tell the truth. M2, M3: memory is used again, so that the most that was held
    /// is near what the rules say must be, and the pool keeps little more.
    #[track_caller]
    pub fn measure(&mut self) {
        self.model.measure(0);
        let memory = self.device.captures().memory();
        assert_eq!(memory.in_use, self.model.in_use(), "{memory:?}");
        assert_eq!(memory.lost, 0, "{memory:?}");
        let (held, peak) = (memory.in_use + memory.held_by_graphs, self.model.peak);
        assert!(
            held * 4 <= peak * 5,
            "{memory:?} is held, and {peak} must be"
        );
        let (pages, kept) = (memory.allocated, self.model.peak_kept);
        assert!(
            pages <= 2 * kept + page(self.model.largest),
            "{memory:?} is allocated, and {kept} must be held or kept"
        );
    }

    // ---- Commands.

    /// A command outside the closures of captures. Where it would spoil a capture by hand, that goes
    /// on instead.
    pub fn command(&mut self, stream: usize, spec: &Spec, stray: bool) {
        // The recording must keep what the warm-up kept, or it needs more memory (M4).
        let allocates = matches!(spec.verb, Verb::Alloc { .. } | Verb::Upload { .. });
        match replace(&mut self.slots[stream], Slot::Taken) {
            Slot::Idle(idle) => {
                self.run_alone(&idle, stream, spec);
                self.slots[stream] = Slot::Idle(idle);
            }
            Slot::WarmUp(prepared, plan) if stray && !allocates => {
                self.run_alone(&prepared, stream, spec);
                self.slots[stream] = Slot::WarmUp(prepared, plan);
            }
            Slot::Window(recording, plan) if stray && !allocates => {
                self.run_alone(&recording, stream, spec);
                self.slots[stream] = Slot::Window(recording, plan);
            }
            other => {
                self.slots[stream] = other;
                self.advance(stream, 1);
            }
        }
    }

    pub fn run_alone(&mut self, commands: &Commands<B>, stream: usize, spec: &Spec) {
        let mut plan = self.plan(std::slice::from_ref(spec));
        if let Some(step) = plan.steps.pop_front() {
            // Its answer was compared.
            let _ = self.step(commands, stream, &step, &mut plan.scratch);
        }
        plan.scratch.iter_mut().for_each(|(_, keep)| *keep = true);
        self.finish_pass(&mut plan);
    }

    pub fn read(&mut self, stream: usize, at: usize) {
        let held = &self.buffers[at];
        let read = match &self.slots[stream] {
            Slot::Idle(stream) => stream.read(&held.buffer),
            Slot::WarmUp(stream, _) => stream.read(&held.buffer),
            _ => return,
        };
        let _ = agree(&self.model.unreadable(held.span.mem), &read);
        if let Ok(bytes) = read {
            assert_same(&bytes, self.model.bytes(held.span));
            self.model.waited(stream);
        }
    }

    // ---- Graphs.

    fn replay(&mut self, stream: usize, graph: u8, look: bool) {
        let Some(at) = pick(self.graphs.len(), graph) else {
            return;
        };
        let (graph, program) = &mut self.graphs[at];
        let expected = self.model.replay_faults(*program);
        let replayed = match &self.slots[stream] {
            Slot::Idle(stream) => graph.replay(stream),
            Slot::WarmUp(stream, _) => graph.replay(stream),
            _ => return,
        };
        let outcome = agree(&expected, &replayed);
        self.model.replayed(*program, stream, outcome);
        let program = *program;
        let own = |landing: &&Landing| look && landing.1 == Some(program);
        for landing in self.downloads.iter().filter(own) {
            self.look(stream, &self.graphs[at], landing);
        }
    }

    fn read_download(&self, stream: usize, graph: u8, download: u8) {
        let Some(landing) = pick(self.downloads.len(), download) else {
            return;
        };
        let landing = &self.downloads[landing];
        // Mostly of the graph that it was recorded in.
        let own = (self.graphs.iter()).position(|(_, program)| Some(*program) == landing.1);
        let other = pick(self.graphs.len(), graph);
        if let Some(at) = own.filter(|_| graph > 15).or(other) {
            self.look(stream, &self.graphs[at], landing);
        }
    }

    /// What the last replay left in a download.
    fn look(&self, stream: usize, (graph, program): &(Graph<B>, usize), landing: &Landing) {
        let (download, of, mem) = landing;
        let read = match &self.slots[stream] {
            Slot::Idle(stream) => graph.read(download, stream),
            Slot::WarmUp(stream, _) => graph.read(download, stream),
            _ => return,
        };
        let _ = agree(&self.model.download_faults(*program, *of, *mem), &read);
        if let Ok(bytes) = read {
            assert_same(bytes, self.model.bytes(self.model.whole(*mem)));
        }
    }

    fn trim(&mut self) {
        let expected = match self.model.any_recording() {
            true => vec![Kind::of("TrimWhileRecording")],
            false => Vec::new(),
        };
        let _ = agree(&expected, &self.device.captures().trim());
        let memory = self.device.captures().memory();
        if !self.model.any_active() {
            assert_eq!((memory.free, memory.waiting), (0, 0), "{memory:?}");
        }
    }

    // ---- The end.

    fn give_all_back(mut self) {
        for stream in 0..STREAMS {
            self.abort(stream, false);
            let bytes = self.buffers.len();
            (0..bytes).for_each(|at| self.read(stream, at));
        }
        self.buffers.clear();
        for (graph, program) in self.graphs.drain(..) {
            drop(graph);
            self.model.drop_graph(program);
        }
        for slot in &self.slots {
            if let Slot::Idle(stream) = slot {
                stream.synchronize().unwrap();
            }
        }
        self.slots = std::array::from_fn(|_| Slot::Taken);
        self.device.captures().trim().unwrap();
        assert_eq!(self.device.captures().memory(), DeviceMemory::default());
    }
}
