//! A backend of a third party, written against the public crate alone: its "driver" runs closures
//! over vectors of bytes. It is as fussy as a real driver can be:
//!
//! * lazy: each stream has a queue, and work runs only when somebody waits for it. What nobody put
//!   in order comes out of order;
//! * a window breaks, and will not close well, if its stream is synchronized, marked or made to
//!   follow another, or if any memory is freed while it is open;
//! * freed memory is overwritten, so that whoever still uses it computes nonsense;
//! * `Third<true>` closes a window only on the thread that opened it, and does not part its memory;
//! * any call can be made to fail, to panic, or to leave the stream stuck in its window.
//!
//! It logs its calls, so that tests see what reached the driver.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use graph_capture::backend::{
    Backend, Call, Custom, DeviceCaptures, EndsAnywhere, OpenCalls, Span, Transition,
};
use graph_capture::{Buffer, CaptureStatus, Commands, Error, read, read_write, write};

/// The device. A clone is the same device.
#[derive(Clone)]
pub struct Third<const PINNED: bool = false> {
    captures: DeviceCaptures<Self>,
    machine: Arc<Machine>,
}

/// What a call of the driver should do instead of its work, once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Return an error, without effect; `close` leaves its window all the same.
    Refuse,
    /// Return an error, and for `close` and `abort` stay in the window.
    Stick,
    /// Panic, without effect.
    Panic,
}

/// The hardware behind the handle.
struct Machine {
    pinned: bool,
    status: CaptureStatus,
    /// Held while queues run.
    running: Mutex<()>,
    /// Open windows by driver stream: whose thread opened it, and whether it broke.
    windows: Mutex<BTreeMap<u64, (ThreadId, bool)>>,
    faults: Mutex<Vec<(&'static str, Fault)>>,
    log: Mutex<Vec<String>>,
    live: AtomicUsize,
    streams: AtomicU64,
    queued: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Work = Arc<dyn Fn() + Send + Sync>;

/// What waits in the queue of a stream.
enum Job {
    Run(Work),
    Await(Point),
}

/// The work of one stream.
#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    submitted: AtomicU64,
    done: AtomicU64,
}

impl Queue {
    fn push(&self, machine: &Machine, job: Job) {
        lock(&self.jobs).push_back(job);
        self.submitted.fetch_add(1, Ordering::Relaxed);
        machine.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs the queue up to a place, and first what that waits for.
    fn run_to(&self, machine: &Machine, at: u64) {
        while self.done.load(Ordering::Relaxed) < at {
            let job = lock(&self.jobs).pop_front();
            match job {
                Some(Job::Run(work)) => work(),
                Some(Job::Await(point)) => point.queue.run_to(machine, point.at),
                None => return,
            }
            machine.queued.fetch_sub(1, Ordering::Relaxed);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A place in a queue.
#[derive(Clone)]
pub struct Point {
    queue: Arc<Queue>,
    at: u64,
    machine: Arc<Machine>,
}

impl Point {
    fn wait(&self) {
        let _running = lock(&self.machine.running);
        self.queue.run_to(&self.machine, self.at);
    }
}

/// What marks points in the queue of one stream.
pub struct Timeline {
    stream: u64,
    queue: Arc<Queue>,
    machine: Arc<Machine>,
}

impl Timeline {
    fn point(&self) -> Point {
        Point {
            queue: Arc::clone(&self.queue),
            at: self.queue.submitted.load(Ordering::Relaxed),
            machine: Arc::clone(&self.machine),
        }
    }
}

impl Machine {
    fn note(&self, what: &str) {
        let recording = self.status.any_recording();
        let suffix = if recording { " while recording" } else { "" };
        lock(&self.log).push(format!("{what}{suffix}"));
    }

    /// Notes a call of the driver, and lets it fail if it was told to.
    fn enter(&self, call: &'static str) -> Result<(), Error> {
        self.note(call);
        match self.fault(call) {
            None => Ok(()),
            Some(Fault::Panic) => panic!("the driver panicked in {call}"),
            Some(_) => Err(Error::driver(call, "told to fail")),
        }
    }

    fn fault(&self, call: &str) -> Option<Fault> {
        let mut faults = lock(&self.faults);
        let place = faults.iter().position(|(at, _)| *at == call)?;
        Some(faults.remove(place).1)
    }

    fn break_windows(&self, which: impl Fn(u64) -> bool) {
        for (stream, (_, broken)) in &mut *lock(&self.windows) {
            *broken |= which(*stream);
        }
    }

    fn is_open(&self, stream: u64) -> bool {
        lock(&self.windows).contains_key(&stream)
    }
}

impl<const PINNED: bool> Third<PINNED> {
    pub fn new() -> Self {
        let captures = DeviceCaptures::new();
        let machine = Machine {
            pinned: PINNED,
            status: captures.status().clone(),
            running: Mutex::new(()),
            windows: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            live: AtomicUsize::new(0),
            streams: AtomicU64::new(0),
            queued: AtomicUsize::new(0),
        };
        Self {
            captures,
            machine: Arc::new(machine),
        }
    }

    /// The next call of that name fails.
    pub fn fail(&self, call: &'static str, fault: Fault) {
        lock(&self.machine.faults).push((call, fault));
    }

    /// The calls since the last look; marked where the device record said recording.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.machine.log))
    }

    /// Allocations that the driver has not got back.
    pub fn live(&self) -> usize {
        self.machine.live.load(Ordering::Relaxed)
    }

    /// What was submitted and has not run.
    pub fn queued(&self) -> usize {
        self.machine.queued.load(Ordering::Relaxed)
    }
}

impl EndsAnywhere for Third<false> {}
impl<const PINNED: bool> OpenCalls for Third<PINNED> {}

/// One allocation.
pub struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    machine: Arc<Machine>,
}

/// One driver stream.
pub struct Driver {
    timeline: Timeline,
    window: RefCell<Option<Vec<Work>>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        let machine = &self.timeline.machine;
        if lock(&machine.windows)
            .remove(&self.timeline.stream)
            .is_some()
        {
            machine.note("retire");
        }
    }
}

/// A closed window.
pub struct Recorded(Vec<Work>);

/// Recorded work, to submit as one.
pub struct Executable(Work);

impl Driver {
    fn machine(&self) -> &Arc<Machine> {
        &self.timeline.machine
    }

    /// Queues work, or records it.
    fn submit(
        &self,
        name: &'static str,
        work: impl Fn() + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.machine().enter(name)?;
        let work: Work = Arc::new(work);
        match self.window.borrow_mut().as_mut() {
            Some(recorded) => recorded.push(work),
            None => self.timeline.queue.push(self.machine(), Job::Run(work)),
        }
        Ok(())
    }

    /// Leaves the window, unless a fault or the thread forbids it.
    fn leave(&self, call: &'static str) -> Result<Vec<Work>, Error> {
        let machine = self.machine();
        let fault = machine.fault(call);
        let mut windows = lock(&machine.windows);
        let Some((opener, broken)) = windows.get(&self.timeline.stream).copied() else {
            return Err(Error::driver(call, "no window is open"));
        };
        let elsewhere = machine.pinned && opener != thread::current().id();
        if fault == Some(Fault::Stick) || elsewhere {
            return Err(Error::driver(call, "the stream does not leave its window"));
        }
        windows.remove(&self.timeline.stream);
        drop(windows);
        let work = self.window.take().unwrap_or_default();
        if fault == Some(Fault::Refuse) {
            return Err(Error::driver(call, "told to fail"));
        }
        if broken {
            return Err(Error::driver(call, "the window was broken"));
        }
        Ok(work)
    }
}

/// A copy to the host that was submitted.
pub struct Fetched {
    bytes: Arc<Mutex<Vec<u8>>>,
    point: Point,
}

impl<const PINNED: bool> Backend for Third<PINNED> {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Recorded;
    type Executable = Executable;
    type Timeline = Timeline;
    type Point = Point;
    type Fetched = Fetched;

    const ONE_QUEUE: bool = false;
    const PARTS_MEMORY: bool = !PINNED;

    fn captures(&self) -> &DeviceCaptures<Self> {
        &self.captures
    }

    fn open(&self) -> Result<Driver, Error> {
        self.machine.enter("open")?;
        Ok(Driver {
            timeline: Timeline {
                stream: self.machine.streams.fetch_add(1, Ordering::Relaxed),
                queue: Arc::default(),
                machine: Arc::clone(&self.machine),
            },
            window: RefCell::new(None),
        })
    }

    fn prepare(t: Transition<'_, Self>) -> Result<(), Error> {
        t.device().machine.enter("prepare")
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        driver.machine().enter("begin")?;
        driver.window.replace(Some(Vec::new()));
        lock(&driver.machine().windows)
            .insert(driver.timeline.stream, (thread::current().id(), false));
        Ok(())
    }

    fn close(t: Transition<'_, Self>) -> Result<Recorded, Error> {
        t.driver().machine().note("close");
        if t.driver().machine().fault("close panic").is_some() {
            panic!("the driver panicked in close");
        }
        t.driver().leave("close").map(Recorded)
    }

    fn seal(t: Transition<'_, Self>, recorded: Recorded) -> Result<Executable, Error> {
        t.driver().machine().enter("seal")?;
        let run = move || recorded.0.iter().for_each(|work| work());
        Ok(Executable(Arc::new(run)))
    }

    fn abort(t: Transition<'_, Self>) -> Option<Recorded> {
        let machine = t.driver().machine();
        machine.note("abort");
        if machine.fault("abort panic").is_some() {
            panic!("the driver panicked in abort");
        }
        if !machine.is_open(t.driver().timeline.stream) {
            return None;
        }
        t.driver().leave("abort").ok().map(Recorded)
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        t.driver().machine().is_open(t.driver().timeline.stream)
    }

    fn replay(executable: &mut Executable, t: Transition<'_, Self>) -> Result<(), Error> {
        let work = Arc::clone(&executable.0);
        t.driver().submit("replay", move || work())
    }

    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error> {
        let timeline = &t.driver().timeline;
        timeline.machine.enter("synchronize")?;
        timeline
            .machine
            .break_windows(|stream| stream == timeline.stream);
        timeline.point().wait();
        Ok(())
    }

    fn fetch(call: Call<'_, Self>, from: Span<'_, Self>) -> Result<Fetched, Error> {
        let (source, range) = (Arc::clone(&from.memory().bytes), from.range());
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let target = Arc::clone(&bytes);
        call.driver().submit("read", move || {
            *lock(&target) = lock(&source)[range.clone()].to_vec();
        })?;
        let point = call.driver().timeline.point();
        Ok(Fetched { bytes, point })
    }

    fn land(t: Transition<'_, Self>, fetched: Fetched, into: &mut [u8]) -> Result<(), Error> {
        t.driver().machine().enter("land")?;
        fetched.point.wait();
        into.copy_from_slice(&lock(&fetched.bytes));
        Ok(())
    }

    fn timeline(driver: &Driver) -> Timeline {
        Timeline {
            stream: driver.timeline.stream,
            queue: Arc::clone(&driver.timeline.queue),
            machine: Arc::clone(&driver.timeline.machine),
        }
    }

    fn mark(timeline: &Timeline) -> Result<Point, Error> {
        timeline
            .machine
            .break_windows(|stream| stream == timeline.stream);
        if timeline.machine.fault("mark").is_some() {
            return Err(Error::driver("mark", "told to fail"));
        }
        Ok(timeline.point())
    }

    fn follow(call: Call<'_, Self>, point: &Point) -> Result<(), Error> {
        let timeline = &call.driver().timeline;
        timeline.machine.enter("follow")?;
        timeline
            .machine
            .break_windows(|stream| stream == timeline.stream);
        timeline
            .queue
            .push(&timeline.machine, Job::Await(point.clone()));
        Ok(())
    }

    fn is_reached(point: &Point) -> Result<bool, Error> {
        Ok(point.queue.done.load(Ordering::Relaxed) >= point.at)
    }

    fn wait(point: &Point, timeout: Option<Duration>) -> Result<bool, Error> {
        if point.machine.fault("wait").is_some() {
            return Err(Error::driver("wait", "told to fail"));
        }
        // Somebody who does not want to wait does not make the work run.
        if timeout != Some(Duration::ZERO) {
            point.wait();
        }
        Self::is_reached(point)
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        self.machine.enter("allocate")?;
        self.machine.live.fetch_add(1, Ordering::Relaxed);
        // Not zero: zeroes are the crate's to write.
        Ok(Memory {
            bytes: Arc::new(Mutex::new(vec![0xA5; bytes])),
            machine: Arc::clone(&self.machine),
        })
    }

    fn free(memory: Memory) -> Result<(), Error> {
        memory.machine.break_windows(|_| true);
        memory.machine.enter("free")?;
        memory.machine.live.fetch_sub(1, Ordering::Relaxed);
        lock(&memory.bytes).fill(0xDD);
        Ok(())
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let (target, range) = (Arc::clone(&to.memory().bytes), to.range());
        let bytes = bytes.to_vec();
        call.driver().submit("write", move || {
            lock(&target)[range.clone()].copy_from_slice(&bytes);
        })
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let source = Arc::clone(&from.memory().bytes);
        let target = Arc::clone(&to.memory().bytes);
        let (from, to) = (from.range(), to.range());
        call.driver().submit("copy", move || {
            let bytes = lock(&source)[from.clone()].to_vec();
            lock(&target)[to.clone()].copy_from_slice(&bytes);
        })
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let (target, range) = (Arc::clone(&to.memory().bytes), to.range());
        let pattern = pattern.to_vec();
        call.driver().submit("fill", move || {
            for element in lock(&target)[range.clone()].chunks_exact_mut(pattern.len()) {
                element.copy_from_slice(&pattern);
            }
        })
    }
}

/// The launches of this backend, as any crate can add them to its own.
pub trait Launches<const PINNED: bool> {
    /// `y[i] = x[i] + by`.
    fn add(
        &self,
        x: &Buffer<f32, Third<PINNED>>,
        y: &Buffer<f32, Third<PINNED>>,
        by: f32,
    ) -> Result<(), Error>;

    /// `y[i] += x[i]`.
    fn accumulate(
        &self,
        x: &Buffer<f32, Third<PINNED>>,
        y: &Buffer<f32, Third<PINNED>>,
    ) -> Result<(), Error>;
}

impl<const PINNED: bool> Launches<PINNED> for Commands<Third<PINNED>> {
    #[track_caller]
    fn add(
        &self,
        x: &Buffer<f32, Third<PINNED>>,
        y: &Buffer<f32, Third<PINNED>>,
        by: f32,
    ) -> Result<(), Error> {
        self.custom(
            "add",
            &by.to_ne_bytes(),
            (read(x), write(y)),
            |call, spans| zip(&call, "add", spans, move |x, _| x + by),
        )
    }

    #[track_caller]
    fn accumulate(
        &self,
        x: &Buffer<f32, Third<PINNED>>,
        y: &Buffer<f32, Third<PINNED>>,
    ) -> Result<(), Error> {
        self.custom(
            "accumulate",
            &[],
            (read(x), read_write(y)),
            |call, spans| zip(&call, "accumulate", spans, |x, y| x + y),
        )
    }
}

/// `y[i] = f(x[i], y[i])`.
fn zip<const PINNED: bool>(
    call: &Custom<'_, Third<PINNED>>,
    name: &'static str,
    spans: &[Span<'_, Third<PINNED>>],
    f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
) -> Result<(), Error> {
    let [x, y] = spans else {
        return Err(Error::driver(name, "takes two buffers"));
    };
    let source = Arc::clone(&x.memory().bytes);
    let target = Arc::clone(&y.memory().bytes);
    let (from, to) = (x.range(), y.range());
    call.driver().submit(name, move || {
        let x = lock(&source)[from.clone()].to_vec();
        let mut y = lock(&target);
        for (y, x) in y[to.clone()].chunks_exact_mut(4).zip(x.chunks_exact(4)) {
            let number = |bytes: &[u8]| f32::from_ne_bytes(bytes.try_into().unwrap());
            let sum = f(number(x), number(y));
            y.copy_from_slice(&sum.to_ne_bytes());
        }
    })
}
