//! What is on its way back to the driver.

use crate::sync::{Mutex, lock};

/// Things that wait for a moment at which no window of their device is open (M5). Putting one in
/// never waits for the driver, so it may happen on any thread and inside any window; taking them
/// out to free them is for whoever holds the device's gate.
pub(crate) struct Returns<T>(Mutex<Vec<T>>);

impl<T> Returns<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    pub(crate) fn put(&self, more: impl IntoIterator<Item = T>) {
        lock(&self.0).extend(more);
    }

    /// All that waits. The queue is open again while they are freed.
    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *lock(&self.0))
    }

    pub(crate) fn sum(&self, of: impl Fn(&T) -> usize) -> usize {
        lock(&self.0).iter().map(of).sum()
    }
}
