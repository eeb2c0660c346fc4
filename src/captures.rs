//! What one device has once: the record of its captures, the gate, the pool, the turn to submit, and
//! the graphs that are gone but not done.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::StreamId;
use crate::backend::Backend;
use crate::error::Error;
use crate::lost::keep_for_good;
use crate::memory::{DeviceMemory, Pool};
use crate::order::Place;
use crate::record::{CaptureStatus, Entry, Record};

/// The captures of one device and its memory, kept by its backend and shared by every handle of the
/// device (rule L13).
///
/// A backend makes one with [`DeviceCaptures::new`] beside its device and hands it out by
/// [`Backend::captures`]; nothing else is asked of it. Only the crate's transitions write it, and
/// the brand `B` keeps one backend from writing another's: see
/// [`record_written_from_outside`](crate::misuse::sealed::record_written_from_outside) and
/// [`record_of_another_backend`](crate::misuse::sealed::record_of_another_backend). Everybody may read it, through
/// [`status`](Self::status).
pub struct DeviceCaptures<B: Backend> {
    status: CaptureStatus,
    record: Arc<Record>,
    pool: Arc<Pool<B>>,
    shared: Arc<Shared<B>>,
}

struct Shared<B: Backend> {
    submitting: Mutex<()>,
    /// Counts what makes a repeated replay look at its memory again: uses that were noted, and marks that
    /// were set.
    changes: AtomicU64,
    departed: Mutex<Vec<Departed<B>>>,
}

/// What a dropped graph leaves while a replay of it may be in flight (M8).
pub(crate) struct Departed<B: Backend> {
    /// What must be done first.
    flights: Vec<Flight<B>>,
    /// Only kept to be dropped.
    _graph: Box<dyn Send>,
}

/// A replay that may be in flight.
struct Flight<B: Backend> {
    place: Place<B>,
    /// Behind it; `None` where none could be marked.
    point: Option<Arc<B::Point>>,
}

impl<B: Backend> Flight<B> {
    fn new(place: Place<B>) -> Self {
        let point = place.line.mark().ok();
        Self { place, point }
    }

    fn is_done(&mut self) -> bool {
        if self.place.line.is_done(self.place.at) {
            return true;
        }
        if self.point.is_none() {
            // It could not be marked before. A later point will do.
            self.point = self.place.line.mark().ok();
        }
        let is_reached = |point: &Arc<B::Point>| B::is_reached(point).unwrap_or(false);
        self.point.as_ref().is_some_and(is_reached)
    }
}

impl<B: Backend> Departed<B> {
    pub(crate) fn new(flights: Vec<Place<B>>, graph: Box<dyn Send>) -> Self {
        Self {
            flights: flights.into_iter().map(Flight::new).collect(),
            _graph: graph,
        }
    }

    fn is_done(&mut self) -> bool {
        self.flights.iter_mut().all(Flight::is_done)
    }
}

impl<B: Backend> DeviceCaptures<B> {
    /// The captures of a new device: none.
    #[must_use]
    pub fn new() -> Self {
        let record = Arc::new(Record::new());
        Self {
            status: CaptureStatus::new(Arc::clone(&record)),
            record,
            pool: Arc::new(Pool::new()),
            shared: Arc::new(Shared {
                submitting: Mutex::new(()),
                changes: AtomicU64::new(0),
                departed: Mutex::new(Vec::new()),
            }),
        }
    }

    /// The published phases, for anyone to read and keep.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        &self.status
    }

    /// Where the memory of the device is (rule M7).
    #[must_use]
    pub fn memory(&self) -> DeviceMemory {
        self.pool.memory()
    }

    /// Gives the pool's free memory back to the driver.
    ///
    /// # Errors
    /// [`Error::TrimWhileRecording`] while any stream of the device records (rule M7); nothing has
    /// changed then.
    pub fn trim(&self) -> Result<(), Error> {
        self.reap();
        self.pool.trim(&self.record)
    }

    /// Whether both are handles of one device.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.record, &other.record)
    }

    pub(crate) fn pool(&self) -> &Arc<Pool<B>> {
        &self.pool
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// How often the uses or the marks of memory have changed.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// Uses were noted, or marks were set. The number of the change.
    pub(crate) fn change(&self) -> u64 {
        let before = self.shared.changes.fetch_add(1, Ordering::AcqRel);
        before.wrapping_add(1)
    }

    /// The device's turn to submit (M9).
    pub(crate) fn submitting(&self) -> &Mutex<()> {
        &self.shared.submitting
    }

    /// Publishes a prepared capture.
    pub(crate) fn prepare(&self, owner: StreamId) -> Entry {
        self.record.prepare(owner)
    }

    /// Publishes an open window. What waits to be freed goes first, if no window is open (M5).
    pub(crate) fn begin(&self, entry: &mut Entry) {
        self.record.begin(entry, || self.pool.drain());
    }

    /// Publishes the end of a capture. Behind the last window, what waited is freed (M5).
    pub(crate) fn leave(&self, entry: Entry) {
        if self.record.leave(entry) {
            self.give_back();
        }
    }

    /// Drops what is left of graphs that are done, and frees what waits for it, unless a window is
    /// open (M5).
    pub(crate) fn give_back(&self) {
        self.reap();
        self.pool.give_back(&self.record);
    }

    /// Keeps what is left of a graph until it is done.
    pub(crate) fn depart(&self, mut graph: Departed<B>) {
        if !graph.is_done() {
            self.departed().push(graph);
        }
    }

    /// Drops what is left of graphs that are done, with nothing locked (M14).
    fn reap(&self) {
        let done: Vec<_> = self
            .departed()
            .extract_if(.., |graph| graph.is_done())
            .collect();
        drop(done);
    }

    fn departed(&self) -> MutexGuard<'_, Vec<Departed<B>>> {
        self.shared
            .departed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Drop for Shared<B> {
    fn drop(&mut self) {
        let departed = self
            .departed
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for graph in departed.drain(..) {
            let mut flights = graph.flights.iter();
            let waited = flights.try_for_each(|flight| flight.place.wait());
            if waited.is_err() {
                // Work may still use it: better lost than used after it is gone.
                keep_for_good(graph);
            }
        }
    }
}

impl<B: Backend> Clone for DeviceCaptures<B> {
    fn clone(&self) -> Self {
        Self {
            status: self.status.clone(),
            record: Arc::clone(&self.record),
            pool: Arc::clone(&self.pool),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<B: Backend> Default for DeviceCaptures<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Backend> fmt::Debug for DeviceCaptures<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceCaptures").field(&self.status).finish()
    }
}
