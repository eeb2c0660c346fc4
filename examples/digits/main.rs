//! Recognises handwritten digits with a small trained network, whose forward pass is captured once
//! and replayed for every batch of images.
//!
//! ```text
//! cargo run --release --example digits
//! cargo run --release --features wgpu --example digits -- --backend wgpu
//! cargo run --release --features cuda --example digits -- --backend cuda
//! ```
//!
//! It runs on the host, so it needs no GPU, or on wgpu or CUDA. Read [`forward`], in `network.rs`, and [`capture`]
//! first: they are all that a program has to do, but for its kernels (`on_host.rs` and its like). The
//! rest tries the graph on 597 images and compares it, bit by bit and in time, with the eager pass: the
//! same commands issued one by one; and, where it did not run on the host, with the host's numbers. On
//! the host the two passes take nearly the same time, for there is no driver whose work a graph could
//! save.

mod data;
mod network;
#[cfg(feature = "cuda")]
mod on_cuda;
mod on_host;
#[cfg(feature = "wgpu")]
mod on_wgpu;

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use graph_capture::{Backend, Error, Graph, GraphMemory, Host, NoCapture, Stream};

use network::{Kernels, Network, forward};
use on_host::Closures;

/// Images in one pass.
const BATCH: usize = 32;

/// Captures [`forward`]: runs it once for real, then records it. Each phase of the stream is a type
/// of its own, so these calls compile in this order only.
///
/// It takes the three steps one by one to time them. Otherwise one call does them all:
/// `stream.capture(|commands| forward(commands, kernels, network))`.
fn capture<B: Backend>(
    stream: Stream<NoCapture, B>,
    kernels: &impl Kernels<B>,
    network: &Network<B>,
) -> Result<Captured<B>, Error> {
    let started = Instant::now();
    let stream = stream.prepare()?;
    forward(&stream, kernels, network)?; // runs
    stream.synchronize()?;
    let warm_up = started.elapsed();

    let started = Instant::now();
    let stream = stream.begin()?;
    forward(&stream, kernels, network)?; // is recorded, and does not run
    let (stream, graph) = stream.end()?;
    let recording = started.elapsed();

    Ok(Captured {
        stream,
        graph,
        warm_up,
        recording,
    })
}

struct Captured<B: Backend> {
    stream: Stream<NoCapture, B>,
    graph: Graph<B>,
    warm_up: Duration,
    recording: Duration,
}

// The trial.

type Problem = Box<dyn std::error::Error>;

fn run(options: &Options) -> Result<Report, Problem> {
    let (weights, images) = data::load(&options.data)?;
    let on_host = |dot| {
        let stream = Host::new().stream()?;
        trial(stream, &Closures, &weights, &images, dot)
    };
    let dot = options.dot.as_deref();
    match options.backend {
        Choice::Host => on_host(dot).map(|(report, _)| report),
        #[cfg(feature = "wgpu")]
        Choice::Wgpu => {
            let device = graph_capture::Wgpu::request()?;
            let kernels = on_wgpu::Shaders::compile(&device)?;
            let tried = trial(device.stream()?, &kernels, &weights, &images, dot)?;
            compare(tried, on_host(None)?)
        }
        #[cfg(feature = "cuda")]
        Choice::Cuda => {
            let device = graph_capture::Cuda::new(0)?;
            let kernels = on_cuda::Functions::load(&device)?;
            let tried = trial(device.stream()?, &kernels, &weights, &images, dot)?;
            compare(tried, on_host(None)?)
        }
    }
}

/// How much logits of another device may differ from the host's, which are between -21 and 18: sums in
/// another order, and fused products, round otherwise.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
const TOLERANCE: f32 = 1e-4;

#[cfg(any(feature = "wgpu", feature = "cuda"))]
type Tried = (Report, Vec<f32>);

/// Compares logits with the host's.
#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn compare((mut report, logits): Tried, (_, host): Tried) -> Result<Report, Problem> {
    report.from_host = Some(largest_difference(&logits, &host)?);
    Ok(report)
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
fn largest_difference(logits: &[f32], host: &[f32]) -> Result<f32, Problem> {
    let differences = logits
        .iter()
        .zip(host)
        .map(|(here, host)| (here - host).abs());
    // NaN is the largest of all.
    let largest = differences.max_by(f32::total_cmp).unwrap_or(f32::NAN);
    if logits.len() == host.len() && largest <= TOLERANCE {
        return Ok(largest);
    }
    Err(format!(
        "a logit differs from the host's by {largest:e}, and at most {TOLERANCE:e} is rounding; please \
         report this"
    )
    .into())
}

/// Captures the network on one backend, and tries it; gives all logits as well.
fn trial<B: Backend>(
    stream: Stream<NoCapture, B>,
    kernels: &impl Kernels<B>,
    weights: &data::Weights,
    images: &data::Images,
    dot: Option<&Path>,
) -> Result<(Report, Vec<f32>), Problem> {
    let network = Network::upload(&stream, weights, BATCH)?;
    let mut captured = capture(stream, kernels, &network)?;
    if let Some(file) = dot {
        draw(&captured.graph, file)?;
    }
    let (score, logits) = classify_all(&mut captured, kernels, &network, images)?;
    check_score(&score, weights)?;
    let passes = time_passes(&mut captured, kernels, &network)?;
    let report = Report {
        score,
        passes,
        right_as_trained: weights.right,
        warm_up: captured.warm_up,
        recording: captured.recording,
        commands: captured.graph.len(),
        memory: captured.graph.memory(),
        from_host: None,
    };
    Ok((report, logits))
}

/// Writes the graph as Graphviz draws it.
fn draw<B: Backend>(graph: &Graph<B>, file: &Path) -> Result<(), Problem> {
    fs::write(file, graph.to_dot()).map_err(|error| {
        format!(
            "{}: cannot be written: {error}; name another with --dot FILE",
            file.display()
        )
        .into()
    })
}

struct Score {
    images: usize,
    right: usize,
    /// Logits compared between the two passes.
    compared: usize,
}

/// Classifies all images by replays, and again by eager passes. Gives the logits too.
fn classify_all<B: Backend>(
    captured: &mut Captured<B>,
    kernels: &impl Kernels<B>,
    network: &Network<B>,
    images: &data::Images,
) -> Result<(Score, Vec<f32>), Problem> {
    let mut logits = Vec::new();
    let (stream, graph) = (&captured.stream, &mut captured.graph);
    let mut score = Score {
        images: images.labels.len(),
        right: 0,
        compared: 0,
    };
    let batches = images.pixels.chunks(BATCH * images.pixels_each);
    for (pixels, labels) in batches.zip(images.labels.chunks(BATCH)) {
        let input = scaled(pixels, network.input.len());
        let replayed = classify(stream, network, &input, || graph.replay(stream))?;
        let eager = classify(stream, network, &input, || {
            forward(stream, kernels, network)
        })?;
        check_equal(&replayed, &eager)?;

        score.compared += replayed.logits.len();
        logits.extend_from_slice(&replayed.logits);
        // The labels end where the padding of the last batch begins.
        score.right += (labels.iter().zip(&replayed.predictions))
            .filter(|&(&label, &prediction)| u32::from(label) == prediction)
            .count();
    }
    Ok((score, logits))
}

/// Pixels as the network was trained on, from 0 to 1, with blank images up to `len`.
fn scaled(pixels: &[u8], len: usize) -> Vec<f32> {
    let brightest = f32::from(data::BRIGHTEST);
    let mut input: Vec<_> = (pixels.iter())
        .map(|&pixel| f32::from(pixel) / brightest)
        .collect();
    input.resize(len, 0.0);
    input
}

struct Answer {
    logits: Vec<f32>,
    predictions: Vec<u32>,
}

/// Puts `input` through the network by `pass`, replayed or eager.
fn classify<B: Backend>(
    stream: &Stream<NoCapture, B>,
    network: &Network<B>,
    input: &[f32],
    pass: impl FnOnce() -> Result<(), Error>,
) -> Result<Answer, Error> {
    stream.write(&network.input, input)?;
    // Wiped, so that no pass can shine with the answer of the one before.
    stream.fill(network.logits(), f32::NAN)?;
    stream.fill(&network.predictions, u32::MAX)?;
    pass()?;
    Ok(Answer {
        logits: stream.read(network.logits())?,
        predictions: stream.read(&network.predictions)?,
    })
}

fn check_equal(replayed: &Answer, eager: &Answer) -> Result<(), Problem> {
    for (index, (replayed, eager)) in replayed.logits.iter().zip(&eager.logits).enumerate() {
        if replayed.to_bits() != eager.to_bits() {
            return Err(format!(
                "logit {index} of a batch is {replayed:?} when replayed and {eager:?} when eager; \
                 they must be equal bit for bit, so please report this"
            )
            .into());
        }
    }
    if replayed.predictions != eager.predictions {
        return Err(
            "the replayed and the eager pass disagree on a digit; please report this".into(),
        );
    }
    Ok(())
}

fn check_score(score: &Score, weights: &data::Weights) -> Result<(), Problem> {
    let Score { images, right, .. } = *score;
    if right != weights.right {
        return Err(format!(
            "{right} of {images} images are right, and {} were after training; \
             use weights.bin and images.bin of one run of train.py",
            weights.right
        )
        .into());
    }
    if right * 100 < images * 96 {
        return Err(format!(
            "{right} of {images} images are right, which is below 96 %; train the network better"
        )
        .into());
    }
    Ok(())
}

struct Passes {
    count: usize,
    eager: Duration,
    replayed: Duration,
}

/// Median times of the eager and the replayed pass. The two take turns, so that whatever else
/// the machine does slows both.
fn time_passes<B: Backend>(
    captured: &mut Captured<B>,
    kernels: &impl Kernels<B>,
    network: &Network<B>,
) -> Result<Passes, Error> {
    const MOST: usize = 4_000;
    const LONGEST: Duration = Duration::from_secs(1);

    let (stream, graph) = (&captured.stream, &mut captured.graph);
    let (mut eager, mut replayed) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
    let started = Instant::now();
    while eager.len() < MOST && (eager.is_empty() || started.elapsed() < LONGEST) {
        eager.push(time_pass(stream, || forward(stream, kernels, network))?);
        replayed.push(time_pass(stream, || graph.replay(stream))?);
    }
    Ok(Passes {
        count: eager.len(),
        eager: median(eager),
        replayed: median(replayed),
    })
}

fn time_pass<B: Backend>(
    stream: &Stream<NoCapture, B>,
    pass: impl FnOnce() -> Result<(), Error>,
) -> Result<Duration, Error> {
    let started = Instant::now();
    pass()?;
    stream.synchronize()?;
    Ok(started.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

// What is printed.

struct Report {
    score: Score,
    passes: Passes,
    right_as_trained: usize,
    warm_up: Duration,
    recording: Duration,
    commands: usize,
    memory: GraphMemory,
    /// The largest difference of a logit from the host's, where it ran elsewhere.
    from_host: Option<f32>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (score, passes, memory) = (&self.score, &self.passes, &self.memory);
        let (right, images) = (score.right, score.images);
        let percent = 100.0 * right as f64 / images as f64;
        let ratio = passes.eager.as_secs_f64() / passes.replayed.as_secs_f64();
        let microseconds = |time: Duration| format!("{:.1}", 1e6 * time.as_secs_f64());
        let median = format!("µs, median of {}", passes.count);

        let mut row = |what: &str, value: &dyn fmt::Display, remark: &str| {
            let row = format!("{what:<20}{value:>9}  {remark}");
            writeln!(f, "{}", row.trim_end())
        };
        row("images", &images, &format!("in batches of {BATCH}"))?;
        row(
            "accuracy",
            &format!("{right}/{images}"),
            &format!("{percent:.2} % (as trained: {})", self.right_as_trained),
        )?;
        row("commands in a pass", &self.commands, "")?;
        row("warm-up", &microseconds(self.warm_up), "µs, once")?;
        row("recording", &microseconds(self.recording), "µs, once")?;
        row("eager pass", &microseconds(passes.eager), &median)?;
        row("replayed pass", &microseconds(passes.replayed), &median)?;
        row("eager / replayed", &format!("{ratio:.2}"), "")?;
        row(
            "held by the graph",
            &(memory.device_bytes + memory.host_bytes),
            &format!("bytes, in {} buffers", memory.buffers),
        )?;
        row(
            "replayed = eager",
            &"yes",
            &format!("bit for bit, all {} logits", score.compared),
        )?;
        match self.from_host {
            Some(largest) => row(
                "off the host's",
                &format!("{largest:.1e}"),
                "at most, any logit",
            ),
            None => Ok(()),
        }
    }
}

// The command line.

const USAGE: &str = "usage: digits [--backend NAME] [--data DIR] [--dot FILE] [--help]";
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits");

struct Options {
    backend: Choice,
    data: PathBuf,
    dot: Option<PathBuf>,
    help: bool,
}

/// What it runs on.
enum Choice {
    Host,
    #[cfg(feature = "wgpu")]
    Wgpu,
    #[cfg(feature = "cuda")]
    Cuda,
}

impl Choice {
    fn parse(name: &str) -> Result<Self, String> {
        match name {
            "host" => Ok(Self::Host),
            #[cfg(feature = "wgpu")]
            "wgpu" => Ok(Self::Wgpu),
            #[cfg(feature = "cuda")]
            "cuda" => Ok(Self::Cuda),
            // Reached in builds without it.
            #[allow(unreachable_patterns)]
            "wgpu" | "cuda" => Err(format!(
                "built without {name}: run it with `--features {name}`"
            )),
            other => Err(format!("unknown backend {other:?}: host, wgpu or cuda")),
        }
    }
}

impl Options {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self {
            backend: Choice::Host,
            data: Path::new(DATA).into(),
            dot: None,
            help: false,
        };
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--backend") => {
                    let name = arguments.next().ok_or("--backend needs a name")?;
                    options.backend = Choice::parse(&name.to_string_lossy())?;
                }
                Some("--data") => {
                    let folder = arguments.next().ok_or("--data needs a folder")?;
                    options.data = folder.into();
                }
                Some("--dot") => {
                    let file = arguments.next().ok_or("--dot needs a file")?;
                    options.dot = Some(file.into());
                }
                Some("--help" | "-h") => options.help = true,
                _ => return Err(format!("unknown argument {argument:?}")),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(env::args_os().skip(1)) {
        Ok(options) => options,
        Err(wrong) => return fail(2, &format!("{wrong}; {USAGE}")),
    };
    if options.help {
        return print(&format!(
            "{USAGE}\n\n\
             Captures the forward pass of a small network once, and replays it on handwritten digits.\n\n  \
             --backend NAME  host (default), or wgpu or cuda where it is built in\n  \
             --data DIR      the folder of weights.bin and images.bin (default: {DATA})\n  \
             --dot FILE      draws the graph into FILE, for Graphviz: dot -Tpng FILE -o graph.png\n  \
             --help          this text\n"
        ));
    }
    match run(&options) {
        Ok(report) => print(&report.to_string()),
        Err(problem) => fail(1, &problem.to_string()),
    }
}

/// Unlike `println!` it does not panic when the reader has gone, as `head` does.
fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => fail(
            1,
            &format!("standard output: {error}; send it somewhere else"),
        ),
        _ => ExitCode::SUCCESS,
    }
}

/// Says in one line what is wrong.
fn fail(status: u8, problem: &str) -> ExitCode {
    // A path may hold a line break.
    let line = problem.replace(char::is_control, "?");
    // If nobody listens, the status still tells.
    let _ = writeln!(io::stderr(), "digits: {line}");
    ExitCode::from(status)
}
