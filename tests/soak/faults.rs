//! A program that captures the network of the digits example, on a device that fails one step of it:
//! each command, allocation, transition and free in turn, before and after its effect. And on
//! devices with less and less memory.

#[path = "../../examples/digits/data.rs"]
#[allow(dead_code)] // The labels are not looked at.
mod data;
#[path = "../../examples/digits/network.rs"]
#[allow(dead_code)] // Nor what they are compared with.
mod network;
#[path = "../../examples/digits/on_host.rs"]
mod on_host;

use std::path::Path;

use graph_capture::host::{Commands, Fault, Host, Step, When};
use graph_capture::{Download, Error, Graph, NoCapture, Stream, TransitionError};

use crate::suite::{assert_holds_only, assert_idle, told};
use network::{Network, forward};
use on_host::Closures;

/// Images in one pass: few, since it runs often.
const BATCH: usize = 2;

const BOTH: [When; 2] = [When::Before, When::After];

/// What a program does when a command of its capture fails.
#[derive(Debug, Clone, Copy)]
enum Habit {
    /// It stops, by `?`.
    Stops,
    /// It looks at no error before those of the transitions.
    GoesOn,
}

const HABITS: [Habit; 2] = [Habit::Stops, Habit::GoesOn];

/// The program: it loads the network, captures a pass, replays it on a batch of images, and reads.
struct Program {
    weights: data::Weights,
    images: Vec<f32>,
    /// Bytes of the device.
    needs: usize,
}

type Refused = TransitionError<Stream<NoCapture>>;

/// A failure, and the stream, to go on with.
struct Failed {
    error: Error,
    stream: Stream<NoCapture>,
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        let (error, stream) = refused.into_parts();
        Self { error, stream }
    }
}

impl Program {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/digits");
        let (weights, images) = data::load(&folder).unwrap();
        let pixels = &images.pixels[..BATCH * images.pixels_each];
        let mut program = Self {
            weights,
            needs: 0,
            images: pixels
                .iter()
                .map(|&pixel| f32::from(pixel) / 16.0)
                .collect(),
        };
        program.needs = program.clean(Habit::Stops).0.memory().allocated;
        program
    }

    /// Runs it, and drops all but the stream. The answer is the bits of the logits.
    fn run(
        &self,
        stream: Stream<NoCapture>,
        habit: Habit,
    ) -> Result<(Stream<NoCapture>, Vec<u32>), Failed> {
        let network = match Network::upload(&stream, &self.weights, BATCH) {
            Ok(network) => network,
            Err(error) => return Err(Failed { error, stream }),
        };
        let (stream, mut graph, copy) = match habit {
            Habit::Stops => stream.capture(|commands| pass(commands, &network)),
            Habit::GoesOn => careless(stream, &network),
        }?;
        match self.answer(&stream, &network, &mut graph, &copy) {
            Ok(logits) => Ok((stream, logits)),
            Err(error) => Err(Failed { error, stream }),
        }
    }

    fn answer(
        &self,
        stream: &Stream<NoCapture>,
        network: &Network<Host>,
        graph: &mut Graph,
        copy: &Download<f32>,
    ) -> Result<Vec<u32>, Error> {
        stream.write(&network.input, &self.images)?;
        stream.fill(network.logits(), f32::NAN)?;
        graph.replay(stream)?;
        let logits = stream.read(network.logits())?;
        assert_eq!(graph.read(copy, stream)?, logits);
        Ok(logits.into_iter().map(f32::to_bits).collect())
    }

    /// Its answer where nothing fails, and the device it ran on.
    fn clean(&self, habit: Habit) -> (Host, Vec<u32>) {
        let device = Host::builder().build();
        let logits = self.succeeds(device.stream().unwrap(), habit).1;
        (device, logits)
    }

    #[track_caller]
    fn succeeds(&self, stream: Stream<NoCapture>, habit: Habit) -> (Stream<NoCapture>, Vec<u32>) {
        match self.run(stream, habit) {
            Ok(done) => done,
            Err(Failed { error, .. }) => panic!("{}", told(&error)),
        }
    }
}

/// What is captured: a pass, its result copied to memory of the window's own, and from there down.
fn pass(commands: &Commands, network: &Network<Host>) -> Result<Download<f32>, Error> {
    forward(commands, &Closures, network)?;
    let scratch = commands.alloc(network.logits().len())?;
    commands.copy(network.logits(), &scratch)?;
    commands.download(&scratch)
}

fn careless(
    stream: Stream<NoCapture>,
    network: &Network<Host>,
) -> Result<(Stream<NoCapture>, Graph, Download<f32>), Refused> {
    let stream = stream.prepare()?;
    let _ = pass(&stream, network);
    let _ = stream.synchronize();
    let stream = stream.begin()?;
    let copy = pass(&stream, network);
    let (stream, graph) = stream.end()?;
    Ok((stream, graph, copy.expect("or it does not seal")))
}

/// The commands of the program in their order: what the device does, and in which file it was asked.
fn commands(habit: Habit) -> Vec<(&'static str, &'static str)> {
    let (network, here) = ("network.rs", "faults.rs");
    let mut commands = vec![("fill", network)];
    for _layer in 0..3 {
        commands.extend([("write", network), ("write", network), ("fill", network)]);
    }
    commands.push(("fill", network));
    let pass = [("launch", network); 9].into_iter().chain([
        ("fill", here),
        ("copy", here),
        ("copy", here),
    ]);
    commands.extend(pass.clone());
    if let Habit::GoesOn = habit {
        commands.push(("synchronize", here));
    }
    commands.extend(pass);
    let answer = ["write", "fill", "replay", "read", "read"];
    commands.extend(answer.map(|call| (call, here)));
    commands
}

/// Runs the program on a device that fails one of its steps, and then whole on the same stream, with
/// no byte more than the program needs, and none in the pool.
#[track_caller]
fn fails_and_goes_on(program: &Program, right: &[u32], fault: Fault, habit: Habit, words: &[&str]) {
    let Fault { step, number, when } = fault;
    let what = format!("{fault}, {habit:?}");
    let device = Host::builder()
        .fail(step, number, when)
        .memory_limit(program.needs)
        .build();
    let Err(Failed { error, stream }) = program.run(device.stream().unwrap(), habit) else {
        panic!("{what}: it did not fail");
    };
    let told = told(&error);
    for word in words.iter().copied().chain([&*fault.to_string()]) {
        assert!(
            told.contains(word),
            "{what}: {told:?} does not say {word:?}"
        );
    }
    assert_idle(device.status());
    let memory = device.memory();
    let held = (memory.in_use, memory.held_by_graphs, memory.waiting);
    assert_eq!(held, (0, 0, 0), "{what}: {memory:?}");
    device.trim().unwrap();
    assert_holds_only(device.memory(), 0);

    let (stream, logits) = program.succeeds(stream, habit);
    assert_eq!(logits, right, "{what}");
    assert_idle(device.status());
    drop(stream);
    device.trim().unwrap();
    assert_holds_only(device.memory(), 0);
}

/// L2, L8, L14, M7.
#[test]
fn every_command_may_fail() {
    let program = Program::new();
    for habit in HABITS {
        let (clean, right) = program.clean(habit);
        let commands = commands(habit);
        assert_eq!(clean.steps(Step::Command), commands.len());
        for (number, (call, file)) in commands.into_iter().enumerate() {
            for when in BOTH {
                let step = Step::Command;
                let fault = Fault { step, number, when };
                fails_and_goes_on(&program, &right, fault, habit, &[call, file]);
            }
        }
    }
}

/// M4, M7. An allocation is asked of the driver in `upload`, in the warm-up, or by `begin` for what
/// the warm-up has not freed.
#[test]
fn every_allocation_may_fail() {
    let program = Program::new();
    for habit in HABITS {
        let (clean, right) = program.clean(habit);
        let allocations = clean.steps(Step::Allocation);
        assert!(allocations > 11, "{allocations}");
        for number in 0..allocations {
            for when in BOTH {
                let step = Step::Allocation;
                let fault = Fault { step, number, when };
                fails_and_goes_on(&program, &right, fault, habit, &["alloc"]);
            }
        }
    }
}

/// L2, L3: and the stream comes back with the error.
#[test]
fn every_transition_may_fail() {
    let program = Program::new();
    for habit in HABITS {
        let (clean, right) = program.clean(habit);
        let transitions = ["prepare", "begin", "end", "seal"];
        assert_eq!(clean.steps(Step::Transition), transitions.len());
        for (number, call) in transitions.into_iter().enumerate() {
            for when in BOTH {
                let step = Step::Transition;
                let fault = Fault { step, number, when };
                fails_and_goes_on(&program, &right, fault, habit, &[call]);
            }
        }
    }
}

/// M7: no call fails, and what is not free is counted as lost: once, and for good.
#[test]
fn every_free_may_fail() {
    const LARGE: usize = 1 << 16;
    let program = Program::new();
    let run = |device: &Host| {
        let stream = device.stream().unwrap();
        // The pool lets go of it for what follows.
        drop(stream.alloc::<u8>(LARGE).unwrap());
        let logits = program.succeeds(stream, Habit::Stops).1;
        let allocated = device.memory().allocated;
        device.trim().unwrap();
        (logits, allocated)
    };
    let clean = Host::builder().build();
    let (right, allocated) = run(&clean);
    assert_holds_only(clean.memory(), 0);
    let frees = clean.steps(Step::Free);
    assert_eq!(frees, clean.steps(Step::Allocation));

    for when in BOTH {
        let mut all_lost = 0;
        for number in 0..frees {
            let device = Host::builder().fail(Step::Free, number, when).build();
            assert_eq!(run(&device).0, right, "free {number} {when:?}");
            let lost = device.memory().lost;
            assert!(lost > 0, "free {number} {when:?}");
            assert_holds_only(device.memory(), lost);
            assert_idle(device.status());
            assert_eq!(run(&device).0, right, "after free {number} {when:?}");
            assert_holds_only(device.memory(), lost);
            all_lost += lost;
        }
        assert_eq!(all_lost, LARGE + allocated, "{when:?}");
    }
}

/// M11: what a replay that failed should have written is marked, its downloads too; and the same
/// graph may be replayed again.
#[test]
fn a_graph_whose_replay_failed_replays_again() {
    let program = Program::new();
    let (clean, right) = program.clean(Habit::Stops);
    let commands = commands(Habit::Stops);
    let first = commands.iter().position(|&(call, _)| call == "replay");
    let later = clean.steps(Step::Command) + 2;
    for (number, when) in [first.unwrap(), later]
        .into_iter()
        .flat_map(|n| BOTH.map(|w| (n, w)))
    {
        let fault = Host::builder().fail(Step::Command, number, when);
        let stream = fault.build().stream().unwrap();
        let network = Network::upload(&stream, &program.weights, BATCH).unwrap();
        let (stream, mut graph, copy) = stream.capture(|c| pass(c, &network)).unwrap();
        if number == later {
            let logits = program.answer(&stream, &network, &mut graph, &copy);
            assert_eq!(logits.unwrap(), right);
        }
        let failed = program.answer(&stream, &network, &mut graph, &copy);
        assert!(told(&failed.unwrap_err()).contains("replay"));
        for answer in [
            stream.read(network.logits()).map(drop),
            graph.read(&copy, &stream).map(drop),
        ] {
            let refused = answer.expect_err("no old answer for a new one");
            assert!(matches!(refused, Error::Marked { .. }), "{refused:?}");
            assert!(told(&refused).contains("told to fail"), "{refused:?}");
        }
        // A write makes good what it writes, and a replay all of it.
        stream.fill(network.logits(), 0.5).unwrap();
        assert_eq!(stream.read(network.logits()).unwrap()[0], 0.5);
        let logits = program.answer(&stream, &network, &mut graph, &copy);
        assert_eq!(logits.unwrap(), right);
    }
}

/// M4, M7: with too little memory the program fails by name, and it gets what is there.
#[test]
fn any_amount_of_memory_is_enough_or_is_refused_by_name() {
    let program = Program::new();
    let (_, right) = program.clean(Habit::Stops);
    let most = program.needs;
    let mut least = None;
    for limit in (0..=most + 512).step_by(64) {
        let habit = HABITS[limit / 64 % 2];
        let device = Host::builder().memory_limit(limit).build();
        let mut stream = device.stream().unwrap();
        let mut enough = Vec::new();
        // Twice: what the pool has kept must not be in the way.
        for _ in 0..2 {
            stream = match program.run(stream, habit) {
                Ok((stream, logits)) => {
                    assert_eq!(logits, right, "with {limit} bytes");
                    enough.push(true);
                    stream
                }
                Err(Failed { error, stream }) => {
                    let told = told(&error);
                    assert!(is_want_of_memory(&error), "with {limit} bytes: {told}");
                    enough.push(false);
                    stream
                }
            };
            assert_idle(device.status());
            assert!(device.memory().allocated <= limit, "{:?}", device.memory());
        }
        assert_eq!(enough[0], enough[1], "with {limit} bytes");
        match (least, enough[0]) {
            (None, true) => least = Some(limit),
            (Some(least), false) => panic!("{least} bytes are enough, and {limit} are not"),
            _ => {}
        }
        drop(stream);
        device.trim().unwrap();
        assert_holds_only(device.memory(), 0);
    }
    assert!(
        least.is_some_and(|least| least <= most.next_multiple_of(64)),
        "{least:?} of {most}"
    );
}

/// M7: what the pool has is of the wrong size, and goes before anybody is refused.
#[test]
fn free_memory_makes_room_for_other_sizes() {
    let device = Host::builder().memory_limit(2048).build();
    let stream = device.stream().unwrap();
    let _held = stream.alloc::<u8>(1024).unwrap();
    drop(stream.alloc::<u8>(1024).unwrap());
    assert_eq!(device.memory().free, 1024);
    let small = [stream.alloc::<u8>(512), stream.alloc::<u8>(512)].map(Result::unwrap);
    let refused = stream.alloc::<u8>(16).unwrap_err();
    assert!(is_want_of_memory(&refused), "{refused:?}");
    drop(small);
    assert!(stream.alloc::<u8>(1024).is_ok());
}

/// By the error itself, or by the first failure that doomed the capture.
fn is_want_of_memory(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { .. } | Error::PoolExhausted { .. } => true,
        Error::WarmUpFailed { first, .. } | Error::Doomed { first, .. } => is_want_of_memory(first),
        _ => false,
    }
}

/// M7: an allocation that fails after its effect is undone, which is no free that could fail too.
#[test]
fn an_allocation_that_fails_after_its_effect_leaves_nothing() {
    let device = Host::builder()
        .fail(Step::Allocation, 0, When::After)
        .fail(Step::Free, 0, When::Before)
        .memory_limit(16)
        .build();
    let stream = device.stream().unwrap();
    let error = stream.alloc::<u8>(16).unwrap_err();
    assert!(
        told(&error).contains("told to fail allocation 0"),
        "{error:?}"
    );
    assert!(stream.alloc::<u8>(16).is_ok());
}

/// Pages are rounded up, but memory that has just room for what is asked gives that.
#[test]
fn memory_that_has_room_for_no_more_than_is_asked_gives_it() {
    // A page of this size would be 1,048,576 bytes.
    let asked = 1_000_000;
    let device = Host::builder().memory_limit(asked).build();
    let stream = device.stream().unwrap();
    let buffer = stream.alloc::<u8>(asked).unwrap();
    assert_eq!(device.memory().allocated, asked);
    drop(buffer);
    // What was given is what comes back, and serves again.
    let buffer = stream.alloc::<u8>(asked).unwrap();
    let more = stream.alloc::<u8>(1).unwrap_err();
    assert!(
        matches!(more, Error::OutOfMemory { bytes: 16, .. }),
        "{more:?}"
    );
    drop(buffer);
    device.trim().unwrap();
    assert_eq!(device.memory().allocated, 0);
}
