//! What may never be dropped, because nobody can say any more what still uses it.

use std::sync::{Mutex, PoisonError};

/// Keeps a value as long as the process. It stays reachable, so that a leak that a checker reports
/// is somebody's mistake, and this is not.
pub(crate) fn keep_for_good(value: impl Send + 'static) {
    static LOST: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());
    let value = Box::new(value);
    LOST.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(value);
}
