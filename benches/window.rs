//! What recording, replay and the pool cost on the host, beside their bars and beside what one
//! would write by hand: boxed closures in a `Vec`, which take an `RwLock` for each buffer.
//!
//! ```sh
//! cargo bench --bench window
//! cargo bench --bench window -- --instructions    # counts them as well; needs valgrind
//! ```
//!
//! A processor's clock moves by more than a bar allows. So everything that is compared runs in one
//! process, in short batches in turn, and a ratio is the median of the ratios of neighbouring
//! batches. The kernels are the same functions on both sides, and are never inlined.

#[path = "compare/mod.rs"]
mod compare;

use std::env;
use std::hint::black_box;
use std::sync::{Arc, LazyLock, Mutex, RwLock};
use std::time::{Duration, Instant};

use graph_capture::host::Commands;
use graph_capture::{Buffer, Error, Host, NoCapture, Stream, read, read_write, write};

use compare::{Comparison, Row};

/// As many that all of them stay in the nearest cache.
const BUFFERS: usize = 16;
const ELEMENTS: usize = 256;
const MIB: usize = 1 << 20;

fn main() -> Result<(), Error> {
    let arguments: Vec<_> = env::args().collect();
    let says = |argument: &str| arguments.iter().any(|other| other == argument);
    // Only `cargo bench` says `--bench`. Anything else wants to know whether this runs at all.
    let effort = if says("--bench") { FULL } else { SMOKE };
    let mut comparisons = comparisons(&effort)?;

    if let Some(row) = compare::row_to_count() {
        return compare::run_row(&mut comparisons, &row);
    }
    compare::run(&mut comparisons, effort.rounds)?;
    if says("--instructions") {
        compare::print_instructions(&comparisons);
    }
    Ok(())
}

/// By the clock on the wall: nothing here waits.
#[inline(always)]
fn timed<R>(work: impl FnOnce() -> R) -> (Duration, R) {
    compare::timed(wall, work)
}

fn wall() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

struct Effort {
    rounds: usize,
    /// Commands of a pass.
    launches: usize,
    /// Replays in one batch.
    replays: usize,
    /// Allocations in one batch.
    allocations: usize,
}

const FULL: Effort = Effort {
    rounds: 1_001,
    launches: 1_000,
    replays: 4,
    allocations: 16,
};

const SMOKE: Effort = Effort {
    rounds: 2,
    launches: 10,
    replays: 2,
    allocations: 2,
};

fn comparisons(effort: &Effort) -> Result<Vec<Comparison>, Error> {
    let Effort {
        launches,
        replays,
        allocations,
        ..
    } = *effort;
    // One page serves all that is allocated here.
    let pooled = Host::new();
    Ok(vec![
        Comparison {
            name: "a recorded launch of four accesses".into(),
            bar: Some(4.0),
            by_hand: pushes(launches),
            here: recorded(launches)?,
        },
        Comparison {
            name: "a replayed kernel of 256 elements, two accesses".into(),
            bar: Some(1.3),
            by_hand: calls(hand_pass(launches, hand_two), replays),
            here: replays_of(launches, two, replays)?,
        },
        Comparison {
            name: "a replayed kernel of 256 elements, four accesses".into(),
            bar: Some(1.3),
            by_hand: calls(hand_pass(launches, hand_four), replays),
            here: replays_of(launches, four, replays)?,
        },
        Comparison {
            name: "a replayed kernel with an empty body, one read".into(),
            bar: Some(2.0),
            by_hand: calls(hand_pass(launches, hand_empty_read), replays),
            here: replays_of(launches, empty_read, replays)?,
        },
        Comparison {
            name: "a replayed kernel with an empty body, one write".into(),
            bar: Some(2.0),
            by_hand: calls(hand_pass(launches, hand_empty_write), replays),
            here: replays_of(launches, empty_write, replays)?,
        },
        Comparison {
            name: "1 MiB of the pool, of a fill(0) of that memory".into(),
            bar: Some(1.15),
            by_hand: fills(&pooled, allocations)?,
            here: pool_serves(&pooled, allocations)?,
        },
        Comparison {
            name: "1 MiB of the pool in a window, of the same".into(),
            bar: Some(1.0 / 20.0),
            by_hand: fills(&pooled, allocations)?,
            here: pool_serves_window(&pooled, 8 * allocations)?,
        },
        Comparison {
            name: "a whole capture and a replay, of one eager pass".into(),
            bar: Some(3.0),
            by_hand: eager(launches, two)?,
            here: captured(launches, two)?,
        },
        Comparison {
            name: "an eager launch of 256 elements, two accesses".into(),
            bar: None,
            by_hand: calls(hand_pass(launches, hand_two), replays),
            here: eager(launches, two)?,
        },
    ])
}

// The kernels.

#[inline(never)]
fn halve(x: &[f32], y: &mut [f32]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = 0.5 * x + 1.0;
    }
}

#[inline(never)]
fn mix(a: &[f32], b: &[f32], c: &[f32], d: &mut [f32]) {
    for (((d, a), b), c) in d.iter_mut().zip(a).zip(b).zip(c) {
        *d = 0.25 * (*d + a + b + c) + 1.0;
    }
}

// Recorded and run here.

trait Launch: Fn(&Commands, &[Buffer<f32>], usize) -> Result<(), Error> + 'static {}
impl<F: Fn(&Commands, &[Buffer<f32>], usize) -> Result<(), Error> + 'static> Launch for F {}

fn two(commands: &Commands, buffers: &[Buffer<f32>], at: usize) -> Result<(), Error> {
    let [x, y, ..] = near(buffers, at);
    commands.launch("halve", (read(x), write(y)), |(x, y)| halve(x, y))
}

fn four(commands: &Commands, buffers: &[Buffer<f32>], at: usize) -> Result<(), Error> {
    let [a, b, c, d] = near(buffers, at);
    let accesses = (read(a), read(b), read(c), read_write(d));
    commands.launch("mix", accesses, |(a, b, c, d)| mix(a, b, c, d))
}

fn empty_read(commands: &Commands, buffers: &[Buffer<f32>], at: usize) -> Result<(), Error> {
    let [x, ..] = near(buffers, at);
    commands.launch("empty", read(x), |_| ())
}

fn empty_write(commands: &Commands, buffers: &[Buffer<f32>], at: usize) -> Result<(), Error> {
    let [x, ..] = near(buffers, at);
    commands.launch("empty", write(x), |_| ())
}

/// A device with buffers and a stream, which is away while it records.
struct Here {
    device: Host,
    stream: Option<Stream<NoCapture>>,
    buffers: Vec<Buffer<f32>>,
    launches: usize,
}

impl Here {
    fn new(launches: usize) -> Result<Self, Error> {
        let device = Host::new();
        let stream = device.stream()?;
        let buffers = (0..BUFFERS).map(|_| stream.alloc::<f32>(ELEMENTS));
        Ok(Self {
            buffers: buffers.collect::<Result<_, _>>()?,
            stream: Some(stream),
            device,
            launches,
        })
    }

    fn stream(&mut self) -> Result<Stream<NoCapture>, Error> {
        self.stream.take().map_or_else(|| self.device.stream(), Ok)
    }

    fn pass(&self, commands: &Commands, launch: &impl Launch) -> Result<(), Error> {
        (0..self.launches).try_for_each(|at| launch(commands, &self.buffers, at))
    }
}

fn recorded(launches: usize) -> Result<Row, Error> {
    let mut here = Here::new(launches)?;
    Ok(Row::new(launches, move || {
        let stream = here.stream()?.prepare()?;
        here.pass(&stream, &four)?;
        let stream = stream.begin()?;
        let (spent, passed) = timed(|| here.pass(&stream, &four));
        let (stream, graph) = stream.end()?;
        here.stream = Some(stream);
        drop(graph);
        passed.map(|()| spent)
    }))
}

fn replays_of(launches: usize, launch: impl Launch, replays: usize) -> Result<Row, Error> {
    let mut here = Here::new(launches)?;
    let stream = here.stream()?;
    let (stream, mut graph, ()) = stream.capture(|commands| here.pass(commands, &launch))?;
    Ok(Row::new(launches * replays, move || {
        let (spent, replays) = timed(|| (0..replays).try_for_each(|_| graph.replay(&stream)));
        replays.map(|()| spent)
    }))
}

fn eager(launches: usize, launch: impl Launch) -> Result<Row, Error> {
    let mut here = Here::new(launches)?;
    let stream = here.stream()?;
    Ok(Row::new(launches, move || {
        let (spent, passed) = timed(|| here.pass(&stream, &launch));
        passed.map(|()| spent)
    }))
}

fn captured(launches: usize, launch: impl Launch) -> Result<Row, Error> {
    let mut here = Here::new(launches)?;
    Ok(Row::new(launches, move || {
        let stream = here.stream()?;
        let (spent, captured) = timed(|| {
            let captured = stream.capture(|commands| here.pass(commands, &launch))?;
            let (stream, mut graph, ()) = captured;
            graph.replay(&stream)?;
            Ok::<_, Error>((stream, graph))
        });
        let (stream, graph) = captured?;
        here.stream = Some(stream);
        drop(graph);
        Ok(spent)
    }))
}

fn pool_serves(device: &Host, allocations: usize) -> Result<Row, Error> {
    let (device, stream) = (device.clone(), device.stream()?);
    Ok(Row::new(allocations, move || {
        let (spent, served) = timed(|| allocate(&stream, allocations));
        assert_served_by_pool(&device);
        served.map(|()| spent)
    }))
}

fn pool_serves_window(device: &Host, allocations: usize) -> Result<Row, Error> {
    let device = device.clone();
    let mut stream = Some(device.stream()?);
    Ok(Row::new(allocations, move || {
        let idle = stream.take().map_or_else(|| device.stream(), Ok)?;
        let prepared = idle.prepare()?;
        allocate(&prepared, allocations)?;
        let recording = prepared.begin()?;
        let (spent, served) = timed(|| allocate(&recording, allocations));
        stream = Some(recording.abort());
        assert_served_by_pool(&device);
        served.map(|()| spent)
    }))
}

fn allocate(commands: &Commands, times: usize) -> Result<(), Error> {
    (0..times).try_for_each(|_| commands.alloc::<u8>(MIB).map(drop))
}

fn assert_served_by_pool(device: &Host) {
    assert_eq!(device.memory().allocated, MIB, "more than the one page");
}

/// Of the very page that the pool serves. Only a kernel reaches it.
fn fills(device: &Host, times: usize) -> Result<Row, Error> {
    let stream = device.stream()?;
    Ok(Row::new(times, move || {
        let memory = stream.alloc::<u8>(MIB)?;
        let spent = Arc::new(Mutex::new(Duration::ZERO));
        let inside = Arc::clone(&spent);
        stream.launch("fill", write(&memory), move |bytes| {
            let (spent, ()) = timed(|| {
                for _ in 0..times {
                    bytes.fill(0);
                    black_box(&mut *bytes);
                }
            });
            *inside.lock().unwrap() = spent;
        })?;
        Ok(*spent.lock().unwrap())
    }))
}

// Written by hand.

type HandBuffer = Arc<RwLock<Vec<f32>>>;
type HandKernel = Box<dyn Fn() + Send + Sync>;

fn hand_two(buffers: &[HandBuffer], at: usize) -> HandKernel {
    let [x, y, ..] = near(buffers, at).map(Arc::clone);
    Box::new(move || halve(&x.read().unwrap(), &mut y.write().unwrap()))
}

fn hand_four(buffers: &[HandBuffer], at: usize) -> HandKernel {
    let [a, b, c, d] = near(buffers, at).map(Arc::clone);
    Box::new(move || {
        let (a, b, c) = (a.read().unwrap(), b.read().unwrap(), c.read().unwrap());
        mix(&a, &b, &c, &mut d.write().unwrap());
    })
}

fn hand_empty_read(buffers: &[HandBuffer], at: usize) -> HandKernel {
    let [x, ..] = near(buffers, at).map(Arc::clone);
    Box::new(move || drop(x.read().unwrap()))
}

fn hand_empty_write(buffers: &[HandBuffer], at: usize) -> HandKernel {
    let [x, ..] = near(buffers, at).map(Arc::clone);
    Box::new(move || drop(x.write().unwrap()))
}

fn hand_buffers() -> Vec<HandBuffer> {
    let buffer = |_| Arc::new(RwLock::new(vec![0.0; ELEMENTS]));
    (0..BUFFERS).map(buffer).collect()
}

fn hand_pass(
    launches: usize,
    launch: impl Fn(&[HandBuffer], usize) -> HandKernel,
) -> Vec<HandKernel> {
    let buffers = hand_buffers();
    let mut kernels = Vec::new();
    for at in 0..launches {
        kernels.push(launch(&buffers, at));
    }
    kernels
}

fn pushes(launches: usize) -> Row {
    let buffers = hand_buffers();
    Row::new(launches, move || {
        let mut kernels = Vec::new();
        let (spent, ()) = timed(|| {
            for at in 0..launches {
                kernels.push(hand_four(&buffers, at));
            }
        });
        drop(black_box(kernels));
        Ok(spent)
    })
}

fn calls(kernels: Vec<HandKernel>, replays: usize) -> Row {
    Row::new(kernels.len() * replays, move || {
        let (spent, ()) = timed(|| {
            for _ in 0..replays {
                for kernel in &kernels {
                    kernel();
                }
            }
        });
        Ok(spent)
    })
}

/// Four neighbours, so that each kernel reads what the one before wrote.
fn near<T>(buffers: &[T], at: usize) -> [&T; 4] {
    [0, 1, 2, 3].map(|next| &buffers[(at + next) % BUFFERS])
}
