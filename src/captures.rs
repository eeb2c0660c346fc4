//! What one device has once: the record of its captures, the gate, and the queue of memory that
//! waits to go back.

use std::fmt;
use std::sync::Arc;

use crate::StreamId;
use crate::backend::Backend;
use crate::memory::Returns;
use crate::record::{CaptureStatus, Entry, Record};

/// The captures of one device, kept by its backend and shared by every handle of the device (rule L13).
///
/// A backend makes one with [`DeviceCaptures::new`] beside its device and hands it out by
/// [`Backend::captures`]; nothing else is asked of it. Only the crate's transitions write it, and
/// the brand `B` keeps one backend from writing another's. Everybody may read it, through
/// [`status`](Self::status).
pub struct DeviceCaptures<B: Backend> {
    status: CaptureStatus,
    record: Arc<Record>,
    returns: Arc<Returns<B>>,
}

impl<B: Backend> DeviceCaptures<B> {
    /// The captures of a new device: none.
    #[must_use]
    pub fn new() -> Self {
        let record = Arc::new(Record::new());
        Self {
            status: CaptureStatus::new(Arc::clone(&record)),
            record,
            returns: Arc::new(Returns::new()),
        }
    }

    /// The published phases, for anyone to read and keep.
    #[must_use]
    pub fn status(&self) -> &CaptureStatus {
        &self.status
    }

    /// Whether both are handles of one device.
    pub(crate) fn is_same_device(&self, other: &Self) -> bool {
        self.returns.is(&other.returns)
    }

    pub(crate) fn returns(&self) -> &Arc<Returns<B>> {
        &self.returns
    }

    /// Publishes a prepared capture.
    pub(crate) fn prepare(&self, owner: StreamId) -> Entry {
        self.record.prepare(owner)
    }

    /// Publishes an open window. What waits to be freed goes first, if no window is open (M5).
    pub(crate) fn begin(&self, entry: &mut Entry) {
        self.record.begin(entry, || self.returns.drain());
    }

    /// Publishes the end of a capture. Behind the last window, what waited is freed (M5).
    pub(crate) fn leave(&self, entry: Entry) {
        if self.record.leave(entry) {
            self.give_back();
        }
    }

    /// Frees what waits to be freed, unless a window is open (M5).
    pub(crate) fn give_back(&self) {
        if !self.returns.is_empty() {
            self.record.outside_windows(|| self.returns.drain());
        }
    }
}

impl<B: Backend> Clone for DeviceCaptures<B> {
    fn clone(&self) -> Self {
        Self {
            status: self.status.clone(),
            record: Arc::clone(&self.record),
            returns: Arc::clone(&self.returns),
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
