//! What the device record costs, beside its bars and beside the plainest record that keeps the
//! counts right: a list under a lock, scanned.
//!
//! ```sh
//! cargo bench --bench record
//! ```
//!
//! A processor's clock moves by more than a bar allows. So everything that is compared runs in one
//! process, in short batches in turn, and a ratio is the median of the ratios of neighbouring
//! batches. What one load is worth shows better in the code itself:
//! `cargo rustc --release --bench record -- --emit asm`.
#![allow(dead_code, unreachable_pub)]

#[path = "../src/record.rs"]
mod record;
#[path = "../src/stream_id.rs"]
mod stream_id;
#[path = "../src/sync.rs"]
mod sync;

use std::env;
use std::fs;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use record::{Entry, Record};
use stream_id::StreamId;
use sync::{Mutex, lock};

fn main() {
    // Only `cargo bench` says `--bench`. Anything else wants to know whether this runs at all.
    let full = env::args().any(|arg| arg == "--bench");
    let effort = if full { FULL } else { SMOKE };
    if !full {
        println!("a short run, whose figures say nothing");
    }
    // Before the first pin: a pinned thread is told of its own core alone.
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    if let Some(core) = cores.first() {
        core_affinity::set_for_current(*core);
    }
    let ids = Ids::new();

    nothing_active(&effort, &ids);
    round_trips(&effort, &ids);
    questions(&effort, &ids);
    match *cores {
        [_, other, ..] => under_a_reader(&effort, &ids, other),
        _ => println!("\na writer under a reader: needs two cores"),
    }
}

struct Effort {
    rounds: usize,
    /// Round trips, or passes over a list of ids, in one batch.
    batch: usize,
    contended: Duration,
}

const FULL: Effort = Effort {
    rounds: 201,
    batch: 2_000,
    contended: Duration::from_millis(2),
};

const SMOKE: Effort = Effort {
    rounds: 3,
    batch: 10,
    contended: Duration::from_micros(100),
};

fn nothing_active(effort: &Effort, ids: &Ids) {
    let (record, list) = (Record::new(), LockAndScan::default());
    let times = 100 * effort.batch;
    let mut rows = [
        Row::new(|| per_call(times, || record.any_active())),
        Row::new(|| per_call(times, || record.any_recording())),
        Row::new(|| per_call(times, || record.is_capturing(ids.mine))),
        Row::new(|| per_call(times, || list.is_capturing(ids.mine))),
    ];
    interleave(effort, &mut rows);
    let [active, recording, capturing, list] = rows;
    println!("a question, with nothing active, ns");
    println!("  any_active                    {:8.2}", active.median());
    println!("  any_recording                 {:8.2}", recording.median());
    println!("  is_capturing                  {:8.2}", capturing.median());
    println!("  is_capturing, lock-and-scan   {:8.2}", list.median());
}

fn round_trips(effort: &Effort, ids: &Ids) {
    const OTHERS: [usize; 4] = [0, 15, 63, 255];
    let records = OTHERS.map(|others| filled::<Record>(ids.active(others)));
    let lists = OTHERS.map(|others| filled::<LockAndScan>(ids.active(others)));
    let mut rows = Vec::new();
    for (list, record) in lists.iter().zip(&records) {
        rows.push(Row::new(|| per_round_trip(effort.batch, list, ids.mine)));
        rows.push(Row::new(|| per_round_trip(effort.batch, record, ids.mine)));
    }
    interleave(effort, &mut rows);

    println!("\nprepare, begin, leave, ns    lock-and-scan   record");
    for (others, pair) in OTHERS.iter().zip(rows.chunks(2)) {
        let (list, record) = (pair[0].median(), pair[1].median());
        println!("  {others:3} others                 {list:13.1} {record:8.1}");
    }
    let [_, none, .., list, many] = &*rows else {
        return;
    };
    at_most("with 255 others, of none", many.over(none), 1.5);
    at_most(
        "with 255 others, of lock-and-scan",
        many.over(list),
        1.0 / 8.0,
    );
}

fn questions(effort: &Effort, ids: &Ids) {
    const ACTIVE: [usize; 4] = [1, 16, 64, 256];
    let records = ACTIVE.map(|active| filled::<Record>(ids.active(active)));
    let lists = ACTIVE.map(|active| filled::<LockAndScan>(ids.active(active)));
    let passes = effort.batch.div_ceil(100);
    let mut rows = Vec::new();
    for (active, (list, record)) in ACTIVE.iter().zip(lists.iter().zip(&records)) {
        let (present, absent) = (ids.active(*active), ids.absent());
        // As many questions for the few as for the many.
        let again = passes * 256 / active;
        rows.push(Row::new(move || per_question(passes, list, absent)));
        rows.push(Row::new(move || per_question(passes, record, absent)));
        rows.push(Row::new(move || per_question(again, list, present)));
        rows.push(Row::new(move || per_question(again, record, present)));
    }
    interleave(effort, &mut rows);

    println!(
        "\nis_capturing, ns        absent: lock-and-scan   record    present: lock-and-scan   record"
    );
    for (active, row) in ACTIVE.iter().zip(rows.chunks(4)) {
        let [a, b, c, d] = [0, 1, 2, 3].map(|column: usize| row[column].median());
        println!("  {active:3} active            {a:21.1} {b:8.1} {c:25.1} {d:8.1}");
    }
    for (active, row) in ACTIVE.iter().zip(rows.chunks(4)).skip(1) {
        let name = format!("absent with {active} active, of one");
        at_most(&name, row[1].over(&rows[1]), 2.0);
    }
    let [.., list, record] = &*rows else { return };
    at_most(
        "present with 256 active, of lock-and-scan",
        record.over(list),
        1.0 / 5.0,
    );
}

fn under_a_reader(effort: &Effort, ids: &Ids, reader: CoreId) {
    let (alone, many) = (ids.active(0), ids.active(63));
    let absent = ids.absent()[0];
    let cases = [
        ("the writer's owner", many, ids.mine, Some(4.0)),
        ("an absent id", many, absent, Some(4.0)),
        ("another, present", many, many[31], Some(4.0)),
        ("the writer's owner", alone, ids.mine, None),
        ("an absent id", alone, absent, Some(1.5)),
    ];
    let lists = cases.map(|(_, others, ..)| filled::<LockAndScan>(others));
    let records = cases.map(|(_, others, ..)| filled::<Record>(others));
    let mut rows = Vec::new();
    for ((_, _, asked, _), (list, record)) in cases.iter().zip(lists.iter().zip(&records)) {
        let time = effort.contended;
        rows.push(Row::new(move || {
            contended(time, list, ids.mine, *asked, reader)
        }));
        rows.push(Row::new(move || {
            contended(time, record, ids.mine, *asked, reader)
        }));
    }
    interleave(effort, &mut rows);

    println!("\nprepare, begin, leave under a spinning reader, million a second");
    println!("  others, the reader asks        lock-and-scan   record    ratio");
    for ((name, others, _, bar), pair) in cases.iter().zip(rows.chunks(2)) {
        let (list, record) = (&pair[0], &pair[1]);
        // The rows are in ns, so the more the slower.
        let ratio = list.over(record);
        let verdict = match bar {
            Some(bar) => format!("at least {bar:3.1}: {}", met(ratio >= *bar)),
            None => "no bar".into(),
        };
        println!(
            "  {:2} {name:25} {:15.2} {:8.2} {ratio:8.2}   {verdict}",
            others.len(),
            1e3 / list.median(),
            1e3 / record.median(),
        );
    }
}

// What is measured: ns for one of something.

fn per_call(times: usize, call: impl Fn() -> bool) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        black_box(call());
    }
    nanoseconds(start) / times as f64
}

fn per_round_trip<D: Design>(times: usize, design: &D, owner: StreamId) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        round_trip(design, owner);
    }
    nanoseconds(start) / times as f64
}

fn per_question<D: Design>(passes: usize, design: &D, ids: &[StreamId]) -> f64 {
    let start = Instant::now();
    for _ in 0..passes {
        for id in ids {
            black_box(design.is_capturing(*id));
        }
    }
    nanoseconds(start) / (passes * ids.len()) as f64
}

/// A round trip of the calling thread, while one on another core asks without a pause. A batch in
/// which either had to leave its core to another program says nothing, and is run again.
fn contended<D: Design>(
    time: Duration,
    design: &D,
    owner: StreamId,
    asked: StreamId,
    core: CoreId,
) -> f64 {
    let (asking, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let ask = || {
        core_affinity::set_for_current(core);
        asking.store(true, SeqCst);
        let before = times_put_off();
        while !stop.load(Relaxed) {
            for _ in 0..64 {
                black_box(design.is_capturing(asked));
            }
        }
        times_put_off() - before
    };
    let write = || {
        let before = times_put_off();
        let (start, mut times) = (Instant::now(), 0);
        while start.elapsed() < time {
            for _ in 0..64 {
                round_trip(design, owner);
            }
            times += 64;
        }
        let each = nanoseconds(start) / f64::from(times);
        (each, times_put_off() - before)
    };

    let mut each = f64::NAN;
    for _ in 0..20 {
        asking.store(false, SeqCst);
        stop.store(false, SeqCst);
        let put_off = thread::scope(|scope| {
            let reader = scope.spawn(ask);
            while !asking.load(SeqCst) {
                thread::yield_now();
            }
            let (measured, writer) = write();
            stop.store(true, SeqCst);
            each = measured;
            writer + reader.join().unwrap_or_default()
        });
        if put_off == 0 {
            break;
        }
    }
    each
}

/// How often the calling thread had to leave its core, on Linux.
fn times_put_off() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.map_or(0, |count| count.trim().parse().unwrap_or_default())
}

#[inline(never)] // One piece of code for every row, so that none is favoured by how it came out.
fn round_trip<D: Design>(design: &D, owner: StreamId) {
    let mut entry = design.prepare(owner);
    design.begin(&mut entry);
    black_box(design.leave(entry));
}

fn nanoseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e9
}

// How it is compared.

struct Row<'a> {
    batch: Box<dyn FnMut() -> f64 + 'a>,
    samples: Vec<f64>,
}

impl<'a> Row<'a> {
    fn new(batch: impl FnMut() -> f64 + 'a) -> Self {
        Self {
            batch: Box::new(batch),
            samples: Vec::new(),
        }
    }

    fn median(&self) -> f64 {
        median(self.samples.iter().copied())
    }

    fn over(&self, other: &Row) -> f64 {
        let pairs = self.samples.iter().zip(&other.samples);
        median(pairs.map(|(mine, theirs)| mine / theirs))
    }
}

fn interleave(effort: &Effort, rows: &mut [Row]) {
    for row in &mut *rows {
        (row.batch)(); // Warms up.
    }
    for _ in 0..effort.rounds {
        for row in &mut *rows {
            let sample = (row.batch)();
            row.samples.push(sample);
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn at_most(name: &str, ratio: f64, bar: f64) {
    println!(
        "  {name:42} {ratio:7.3}   at most {bar:.3}: {}",
        met(ratio <= bar)
    );
}

fn met(yes: bool) -> &'static str {
    if yes { "met" } else { "MISSED" }
}

// Whose captures.

/// 1,024 ids of both kinds in a random order, and the one that writes.
struct Ids {
    mine: StreamId,
    pool: Vec<StreamId>,
}

impl Ids {
    fn new() -> Self {
        let mut pool: Vec<_> = (0..512).map(StreamId::new).collect();
        pool.extend((0..512).filter_map(|_| thread::spawn(StreamId::current).join().ok()));
        let mut random = 1_u64;
        for end in (1..pool.len()).rev() {
            // Knuth's constants: any order will do that is not the lines' own.
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            pool.swap(end, (random >> 33) as usize % (end + 1));
        }
        let mine = StreamId::current();
        Self { mine, pool }
    }

    fn active(&self, count: usize) -> &[StreamId] {
        &self.pool[..count]
    }

    fn absent(&self) -> &[StreamId] {
        &self.pool[512..]
    }
}

// The two designs.

trait Design: Default + Sync {
    type Entry;
    fn prepare(&self, owner: StreamId) -> Self::Entry;
    fn begin(&self, entry: &mut Self::Entry);
    fn leave(&self, entry: Self::Entry) -> bool;
    fn is_capturing(&self, owner: StreamId) -> bool;
}

fn filled<D: Design>(owners: &[StreamId]) -> D {
    let design = D::default();
    for owner in owners {
        _ = design.prepare(*owner); // And stays.
    }
    design
}

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Design for Record {
    type Entry = Entry;

    fn prepare(&self, owner: StreamId) -> Entry {
        self.prepare(owner)
    }

    fn begin(&self, entry: &mut Entry) {
        self.begin(entry, || ());
    }

    fn leave(&self, entry: Entry) -> bool {
        self.leave(entry)
    }

    fn is_capturing(&self, owner: StreamId) -> bool {
        self.is_capturing(owner)
    }
}

/// A list under a lock and two counts: what the record has to beat.
#[derive(Default)]
struct LockAndScan {
    list: Mutex<List>,
    active: AtomicUsize,
    recording: AtomicUsize,
}

#[derive(Default)]
struct List {
    captures: Vec<Capture>,
    entered: usize,
}

struct Capture {
    entry: usize,
    owner: StreamId,
    recording: bool,
}

impl Design for LockAndScan {
    type Entry = usize;

    fn prepare(&self, owner: StreamId) -> usize {
        let mut list = lock(&self.list);
        list.entered += 1;
        let entry = list.entered;
        list.captures.push(Capture {
            entry,
            owner,
            recording: false,
        });
        self.active.fetch_add(1, SeqCst);
        entry
    }

    fn begin(&self, entry: &mut usize) {
        let mut list = lock(&self.list);
        let mut captures = list.captures.iter_mut();
        if let Some(capture) = captures.find(|capture| capture.entry == *entry) {
            capture.recording = true;
            self.recording.fetch_add(1, SeqCst);
        }
    }

    fn leave(&self, entry: usize) -> bool {
        let mut list = lock(&self.list);
        let mut captures = list.captures.iter();
        let Some(at) = captures.position(|capture| capture.entry == entry) else {
            return false;
        };
        let capture = list.captures.swap_remove(at);
        self.active.fetch_sub(1, SeqCst);
        capture.recording && self.recording.fetch_sub(1, SeqCst) == 1
    }

    fn is_capturing(&self, owner: StreamId) -> bool {
        self.active.load(SeqCst) != 0 && {
            let list = lock(&self.list);
            list.captures.iter().any(|capture| capture.owner == owner)
        }
    }
}
