//! A backend of a third party, written against the public crate alone: its "driver" is a queue of
//! closures over vectors of bytes. It is as fussy as a real driver can be:
//!
//! * lazy: work runs only when somebody waits for it;
//! * a window breaks, and will not close well, if its stream is synchronized or if memory is freed
//!   while it is open;
//! * `Third<true>` closes a window only on the thread that opened it;
//! * any call can be made to fail, to panic, or to leave the stream stuck in its window.
//!
//! It logs its calls, so that tests see what reached the driver.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use graph_capture::{
    Backend, Buffer, Call, CaptureStatus, Commands, Custom, DeviceCaptures, EndsAnywhere, Error,
    OpenCalls, Span, Transition, read, read_write, write,
};

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

type Work = Arc<dyn Fn() + Send + Sync>;

/// The hardware behind the handle.
struct Machine {
    status: Mutex<Option<CaptureStatus>>,
    queue: Mutex<VecDeque<Work>>,
    /// Open windows by driver stream: whose thread opened it, and whether it broke.
    windows: Mutex<BTreeMap<u64, (ThreadId, bool)>>,
    faults: Mutex<Vec<(&'static str, Fault)>>,
    log: Mutex<Vec<String>>,
    live: AtomicUsize,
    streams: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine {
    fn note(&self, what: &str) {
        let recording = lock(&self.status)
            .as_ref()
            .is_some_and(CaptureStatus::any_recording);
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

    fn run_all(&self) {
        loop {
            let next = lock(&self.queue).pop_front();
            match next {
                Some(work) => work(),
                None => return,
            }
        }
    }
}

impl<const PINNED: bool> Third<PINNED> {
    pub fn new() -> Self {
        let captures = DeviceCaptures::new();
        let machine = Machine {
            status: Mutex::new(Some(captures.status().clone())),
            queue: Mutex::default(),
            windows: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            live: AtomicUsize::new(0),
            streams: AtomicU64::new(0),
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

    /// Submissions that nobody has waited for.
    pub fn queued(&self) -> usize {
        lock(&self.machine.queue).len()
    }
}

impl EndsAnywhere for Third<false> {}
impl<const PINNED: bool> OpenCalls for Third<PINNED> {}

/// One allocation.
pub struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    machine: Arc<Machine>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.machine.note("free");
        self.machine.live.fetch_sub(1, Ordering::Relaxed);
        self.machine.break_windows(|_| true);
    }
}

/// One driver stream.
pub struct Driver {
    id: u64,
    machine: Arc<Machine>,
    window: RefCell<Option<Vec<Work>>>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        if lock(&self.machine.windows).remove(&self.id).is_some() {
            self.machine.note("retire");
        }
    }
}

/// A closed window.
pub struct Recorded(Vec<Work>);

/// Recorded work, to submit as one.
pub struct Executable(Work);

impl Driver {
    /// Leaves the window, unless a fault or the thread forbids it.
    fn leave(&self, call: &'static str) -> Result<Vec<Work>, Error> {
        let fault = self.machine.fault(call);
        let mut windows = lock(&self.machine.windows);
        let Some((opener, broken)) = windows.get(&self.id).copied() else {
            return Err(Error::driver(call, "no window is open"));
        };
        if fault == Some(Fault::Stick) || opener != thread::current().id() {
            return Err(Error::driver(call, "the stream does not leave its window"));
        }
        windows.remove(&self.id);
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

impl<const PINNED: bool> Backend for Third<PINNED> {
    type Driver = Driver;
    type Memory = Memory;
    type Recorded = Recorded;
    type Executable = Executable;

    fn captures(&self) -> &DeviceCaptures<Self> {
        &self.captures
    }

    fn open(&self) -> Result<Driver, Error> {
        self.machine.enter("open")?;
        Ok(Driver {
            id: self.machine.streams.fetch_add(1, Ordering::Relaxed),
            machine: Arc::clone(&self.machine),
            window: RefCell::new(None),
        })
    }

    fn prepare(t: Transition<'_, Self>) -> Result<(), Error> {
        t.device().machine.enter("prepare")
    }

    fn begin(t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        driver.machine.enter("begin")?;
        driver.window.replace(Some(Vec::new()));
        lock(&driver.machine.windows).insert(driver.id, (thread::current().id(), false));
        Ok(())
    }

    fn close(t: Transition<'_, Self>) -> Result<Recorded, Error> {
        t.driver().machine.note("close");
        if t.driver().machine.fault("close panic").is_some() {
            panic!("the driver panicked in close");
        }
        t.driver().leave("close").map(Recorded)
    }

    fn seal(t: Transition<'_, Self>, recorded: Recorded) -> Result<Executable, Error> {
        t.driver().machine.enter("seal")?;
        let run = move || recorded.0.iter().for_each(|work| work());
        Ok(Executable(Arc::new(run)))
    }

    fn abort(t: Transition<'_, Self>) -> Option<Recorded> {
        t.driver().machine.note("abort");
        if t.driver().machine.fault("abort panic").is_some() {
            panic!("the driver panicked in abort");
        }
        if !lock(&t.driver().machine.windows).contains_key(&t.driver().id) {
            return None;
        }
        t.driver().leave("abort").ok().map(Recorded)
    }

    fn in_window(t: Transition<'_, Self>) -> bool {
        lock(&t.driver().machine.windows).contains_key(&t.driver().id)
    }

    fn replay(executable: &mut Executable, t: Transition<'_, Self>) -> Result<(), Error> {
        t.driver().machine.enter("replay")?;
        lock(&t.driver().machine.queue).push_back(Arc::clone(&executable.0));
        Ok(())
    }

    fn synchronize(t: Transition<'_, Self>) -> Result<(), Error> {
        let driver = t.driver();
        driver.machine.enter("synchronize")?;
        driver.machine.break_windows(|stream| stream == driver.id);
        driver.machine.run_all();
        Ok(())
    }

    fn read(t: Transition<'_, Self>, from: Span<'_, Self>, into: &mut [u8]) -> Result<(), Error> {
        t.driver().machine.enter("read")?;
        t.driver().machine.run_all();
        into.copy_from_slice(&lock(&from.memory().bytes)[from.range()]);
        Ok(())
    }

    fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        let machine = &self.machine;
        machine.enter("allocate")?;
        machine.live.fetch_add(1, Ordering::Relaxed);
        // Not zero: zeroes are the crate's to write.
        Ok(Memory {
            bytes: Arc::new(Mutex::new(vec![0xA5; bytes])),
            machine: Arc::clone(machine),
        })
    }

    fn write(call: Call<'_, Self>, to: Span<'_, Self>, bytes: &[u8]) -> Result<(), Error> {
        let (target, range, bytes) = (Arc::clone(&to.memory().bytes), to.range(), bytes.to_vec());
        submit(call.driver(), "write", move || {
            lock(&target)[range.clone()].copy_from_slice(&bytes);
        })
    }

    fn copy(call: Call<'_, Self>, from: Span<'_, Self>, to: Span<'_, Self>) -> Result<(), Error> {
        let (source, target) = (
            Arc::clone(&from.memory().bytes),
            Arc::clone(&to.memory().bytes),
        );
        let (from, to) = (from.range(), to.range());
        submit(call.driver(), "copy", move || {
            let bytes = lock(&source)[from.clone()].to_vec();
            lock(&target)[to.clone()].copy_from_slice(&bytes);
        })
    }

    fn fill(call: Call<'_, Self>, to: Span<'_, Self>, pattern: &[u8]) -> Result<(), Error> {
        let (target, range, pattern) =
            (Arc::clone(&to.memory().bytes), to.range(), pattern.to_vec());
        submit(call.driver(), "fill", move || {
            for element in lock(&target)[range.clone()].chunks_exact_mut(pattern.len()) {
                element.copy_from_slice(&pattern);
            }
        })
    }
}

/// Queues work, or records it.
fn submit(
    driver: &Driver,
    name: &'static str,
    work: impl Fn() + Send + Sync + 'static,
) -> Result<(), Error> {
    driver.machine.enter(name)?;
    let work: Work = Arc::new(work);
    match driver.window.borrow_mut().as_mut() {
        Some(recorded) => recorded.push(work),
        None => lock(&driver.machine.queue).push_back(work),
    }
    Ok(())
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
    let (source, target) = (Arc::clone(&x.memory().bytes), Arc::clone(&y.memory().bytes));
    let (from, to) = (x.range(), y.range());
    submit(call.driver(), name, move || {
        let x = lock(&source)[from.clone()].to_vec();
        let mut y = lock(&target);
        for (y, x) in y[to.clone()].chunks_exact_mut(4).zip(x.chunks_exact(4)) {
            let (a, b) = (
                f32::from_ne_bytes(x.try_into().unwrap()),
                f32::from_ne_bytes(y.try_into().unwrap()),
            );
            y.copy_from_slice(&f(a, b).to_ne_bytes());
        }
    })
}
