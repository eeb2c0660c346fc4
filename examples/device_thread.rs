//! A server with one device: one thread owns the device, the pool of streams and the cache of graphs;
//! clients on other threads send it jobs. Copy it from here.
//!
//! ```text
//! cargo run --release --example device_thread
//! ```
//!
//! Each job is a batch of handwritten digits, of random size. The first batch of a size is captured, the
//! others replay its graph. One client opens a window by hand and is never heard of again: its
//! neighbours are refused until its time is over, which they learn from the published status, without
//! asking the device thread. Every answer is compared with an eager pass on a device of its own.

#[path = "digits/data.rs"]
mod data;
#[path = "digits/network.rs"]
mod network;
#[path = "digits/on_host.rs"]
mod on_host;

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use graph_capture::server::{CacheCounts, Cached, GraphCache, PoolCounts, StreamPool};
use graph_capture::{CaptureStatus, Download, Error, Host, StreamId};

use network::{Network, forward};
use on_host::Closures;

type Problem = Box<dyn std::error::Error + Send + Sync>;

const CLIENTS: u64 = 6;
const JOBS: usize = 150;
const MOST_IMAGES: u64 = 12;
const STREAMS: usize = 2;
/// The client that vanishes shares a stream with the even ones.
const VANISHES: StreamId = StreamId::new(100);
const TIME_LIMIT: Duration = Duration::from_millis(40);
const IDLE: Duration = Duration::from_secs(1);

// ---- The device thread.

/// What a client may ask for.
enum Job {
    /// The logits of a batch of images.
    Classify {
        caller: StreamId,
        images: Vec<f32>,
        count: usize,
        reply: Sender<Result<Answer, Error>>,
    },
    /// A capture by hand: its warm-up, and its window, open.
    OpenWindow {
        caller: StreamId,
        reply: Sender<Result<(), Error>>,
    },
}

struct Answer {
    logits: Vec<f32>,
    /// Whether it was there already, to be replayed.
    was_cached: bool,
}

/// What the device thread has seen, when all clients are gone.
struct Summary {
    pool: PoolCounts,
    cache: CacheCounts,
    /// What became of captures that outlasted their time.
    abandoned: Vec<Error>,
}

/// What runs on the device thread: it alone touches these.
struct Device {
    pool: StreamPool,
    cache: GraphCache<usize, Network<Host>, Download<f32>>,
    weights: Arc<data::Weights>,
    abandoned: Vec<Error>,
}

impl Device {
    fn new(weights: Arc<data::Weights>) -> Result<Self, Error> {
        Ok(Self {
            pool: StreamPool::new(Host::new(), STREAMS)?.with_time_limit(TIME_LIMIT),
            cache: GraphCache::new(10, 4 << 20),
            weights,
            abandoned: Vec::new(),
        })
    }

    fn serve(mut self, jobs: &Receiver<Job>) -> Summary {
        loop {
            // A capture that lasts too long is noticed also when there is nothing to do.
            let now = Instant::now();
            let idle = self.pool.next_expiry().unwrap_or(now + IDLE);
            match jobs.recv_timeout(idle.saturating_duration_since(now)) {
                // A job that panics costs its client the answer, and nobody else anything.
                Ok(job) => drop(catch_unwind(AssertUnwindSafe(|| self.run(job)))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let expired = self.pool.take_expired().into_iter();
            self.abandoned
                .extend(expired.filter_map(|end| end.into_result().err()));
        }
        Summary {
            pool: self.pool.counts(),
            cache: self.cache.counts(),
            abandoned: self.abandoned,
        }
    }

    fn run(&mut self, job: Job) {
        // A client that has gone does not want its answer.
        match job {
            Job::Classify {
                caller,
                images,
                count,
                reply,
            } => drop(reply.send(self.classify(caller, &images, count))),
            Job::OpenWindow { caller, reply } => drop(reply.send(self.open_window(caller))),
        }
    }

    fn classify(
        &mut self,
        caller: StreamId,
        images: &[f32],
        count: usize,
    ) -> Result<Answer, Error> {
        let (pool, weights) = (&mut self.pool, &self.weights);
        let cached = self.cache.get_or_capture(
            pool,
            caller,
            count,
            |commands| Network::upload(commands, weights, count),
            |commands, network| {
                forward(commands, &Closures, network)?;
                commands.download(network.logits())
            },
        );
        let was_cached = matches!(cached, Cached::Hit(_));
        let mut graph = cached.into_result()?;
        pool.write(caller, &graph.inputs().input, images)?;
        graph.replay(pool, caller)?;
        let logits = graph.read(pool, caller, graph.outputs())?.to_vec();
        Ok(Answer { logits, was_cached })
    }

    fn open_window(&mut self, caller: StreamId) -> Result<(), Error> {
        let (pool, weights) = (&mut self.pool, &self.weights);
        let network = pool.submit(caller, |commands| Network::upload(commands, weights, 1))?;
        pool.prepare(caller)?;
        pool.submit(caller, |commands| forward(commands, &Closures, &network))?;
        pool.begin(caller)?;
        pool.submit(caller, |commands| forward(commands, &Closures, &network))
    }
}

// ---- The clients.

/// A client's way to the device.
#[derive(Clone)]
struct Connection {
    jobs: Sender<Job>,
    /// Read on the client's own thread.
    status: CaptureStatus,
}

impl Connection {
    fn ask<R>(
        &self,
        job: impl FnOnce(Sender<Result<R, Error>>) -> Job,
    ) -> Result<Result<R, Error>, Problem> {
        let (reply, answer) = channel();
        self.jobs
            .send(job(reply))
            .map_err(|_| "the device thread has gone")?;
        Ok(answer.recv().map_err(|_| "the device thread has gone")?)
    }
}

#[derive(Default)]
struct Tally {
    jobs: usize,
    images: usize,
    /// Answers whose graph was captured for them.
    captures: usize,
    replays: usize,
    refusals: usize,
}

/// The images, as the network wants them, and what an eager pass said of them.
struct Truth {
    images: Vec<f32>,
    pixels: usize,
    logits: Vec<f32>,
    digits: usize,
}

impl Truth {
    /// Computes it on a device of its own.
    fn compute(weights: &data::Weights, images: &data::Images) -> Result<Self, Problem> {
        let scaled = images.pixels.iter().map(|&pixel| f32::from(pixel));
        let scaled: Vec<_> = scaled
            .map(|pixel| pixel / f32::from(data::BRIGHTEST))
            .collect();
        let stream = Host::new().stream()?;
        let network = Network::upload(&stream, weights, images.labels.len())?;
        stream.write(&network.input, &scaled)?;
        forward(&stream, &Closures, &network)?;
        let logits = stream.read(network.logits())?;
        let predictions = stream.read(&network.predictions)?;
        let right = |(label, digit): &(&u8, &u32)| u32::from(**label) == **digit;
        let right = images.labels.iter().zip(&predictions).filter(right).count();
        if right != weights.right {
            return Err(
                format!("{right} images are right, and {} should be", weights.right).into(),
            );
        }
        Ok(Self {
            images: scaled,
            pixels: images.pixels_each,
            digits: logits.len() / images.labels.len(),
            logits,
        })
    }

    fn count(&self) -> usize {
        self.images.len() / self.pixels
    }
}

fn client(id: u64, connection: &Connection, truth: &Truth) -> Result<Tally, Problem> {
    let caller = StreamId::new(id);
    let mut tally = Tally::default();
    let mut random = Random(id + 1);
    while tally.jobs < JOBS {
        let count = 1 + random.below(MOST_IMAGES) as usize;
        let first = random.below((truth.count() - count) as u64) as usize;
        let images = &truth.images[first * truth.pixels..][..count * truth.pixels];
        let answer = connection.ask(|reply| Job::Classify {
            caller,
            images: images.to_vec(),
            count,
            reply,
        })?;
        let answer = match answer {
            Ok(answer) => answer,
            Err(refusal) => {
                let owner = in_the_way(&refusal).ok_or(refusal)?;
                tally.refusals += 1;
                while connection.status.is_capturing(owner) {
                    thread::sleep(Duration::from_millis(1));
                }
                continue;
            }
        };
        let expected = &truth.logits[first * truth.digits..][..count * truth.digits];
        let equal = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        if answer.logits.len() != expected.len() || !answer.logits.iter().zip(expected).all(equal) {
            return Err(format!(
                "client {id}: images {first} to {} came back wrong",
                first + count
            )
            .into());
        }
        tally.jobs += 1;
        tally.images += count;
        tally.replays += 1;
        tally.captures += usize::from(!answer.was_cached);
    }
    Ok(tally)
}

/// Whose capture a call was refused for.
fn in_the_way(error: &Error) -> Option<StreamId> {
    match error {
        Error::Neighbour { owner, .. } => Some(*owner),
        _ => None,
    }
}

/// Opens a window and is gone, with no goodbye.
fn vanishing_client(connection: &Connection) -> Result<(), Problem> {
    loop {
        let opened = connection.ask(|reply| Job::OpenWindow {
            caller: VANISHES,
            reply,
        })?;
        match opened {
            // Somebody else's capture, or a machine so slow that its own time was over.
            Err(Error::Neighbour { .. } | Error::Expired { .. } | Error::OutOfOrder { .. }) => {
                thread::yield_now();
            }
            other => return Ok(other?),
        }
    }
}

/// Numbers that are random enough, and the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

// ---- Both.

fn run() -> Result<(), Problem> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/digits"));
    let (weights, images) = data::load(folder)?;
    let truth = Truth::compute(&weights, &images)?;
    let weights = Arc::new(weights);

    let (jobs, inbox) = channel();
    let (say_status, status) = channel();
    let device = thread::spawn(move || -> Result<Summary, Error> {
        // Built where it is used: on some backends a pool does not change its thread.
        let device = Device::new(weights)?;
        let _ = say_status.send(device.pool.status().clone());
        Ok(device.serve(&inbox))
    });
    let status = status
        .recv()
        .map_err(|_| "the device thread did not start")?;
    let connection = Connection { jobs, status };

    let tallies = thread::scope(|scope| -> Result<BTreeMap<u64, Tally>, Problem> {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|id| {
                let (connection, truth) = (connection.clone(), &truth);
                (id, scope.spawn(move || client(id, &connection, truth)))
            })
            .collect();
        let gone = scope.spawn(|| vanishing_client(&connection));
        gone.join().map_err(|_| "a client panicked")??;
        let tally = |(id, client): (u64, thread::ScopedJoinHandle<'_, _>)| {
            Ok((id, client.join().map_err(|_| "a client panicked")??))
        };
        clients.into_iter().map(tally).collect()
    })?;
    // With the last way to it gone, the device thread ends.
    drop(connection);
    let summary = device.join().map_err(|_| "the device thread panicked")??;
    print!(
        "{}",
        Table {
            tallies,
            summary: &summary
        }
    );
    if summary.abandoned.is_empty() {
        return Err("the client that vanished was not noticed".into());
    }
    Ok(())
}

struct Table<'s> {
    tallies: BTreeMap<u64, Tally>,
    summary: &'s Summary,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "client   stream     jobs   images captures  replays refusals"
        )?;
        for (id, tally) in &self.tallies {
            let stream = id % STREAMS as u64;
            let Tally {
                jobs,
                images,
                captures,
                replays,
                refusals,
            } = tally;
            writeln!(
                f,
                "{id:>6} {stream:>8} {jobs:>8} {images:>8} {captures:>8} {replays:>8} {refusals:>8}"
            )?;
        }
        let PoolCounts {
            sealed,
            failed,
            abandoned,
            replays,
            refused,
            ..
        } = self.summary.pool;
        writeln!(f, "\npool of {STREAMS} streams")?;
        writeln!(
            f,
            "  captures  {sealed} sealed, {failed} failed, {abandoned} abandoned"
        )?;
        writeln!(f, "  replays   {replays}")?;
        writeln!(f, "  refused   {refused}")?;
        let CacheCounts {
            hits,
            misses,
            evictions,
            never_replayed,
            graphs,
            bytes,
            ..
        } = self.summary.cache;
        writeln!(f, "cache")?;
        writeln!(
            f,
            "  calls     {hits} hits, {misses} misses, {evictions} evictions"
        )?;
        writeln!(
            f,
            "  holds     {graphs} graphs, {bytes} bytes; never replayed: {never_replayed}"
        )?;
        for report in &self.summary.abandoned {
            writeln!(f, "abandoned: {report}")?;
            let mut cause = report.source();
            while let Some(error) = cause {
                writeln!(f, "  {error}")?;
                cause = error.source();
            }
        }
        writeln!(f, "every answer equals the eager one, bit for bit")
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("device_thread: {problem}");
            ExitCode::FAILURE
        }
    }
}
