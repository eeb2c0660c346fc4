//! The lock and the atomics of the device record, replaced by loom's under
//! `--cfg graph_capture_loom`, so that the model checker runs the crate's own code.

#[cfg(not(graph_capture_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

#[cfg(graph_capture_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

/// Locks, also a lock that a panic poisoned: nothing here leaves data half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
