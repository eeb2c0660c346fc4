//! The device record: which logical streams of a device are in a capture, published for everyone.
//!
//! Transitions write it, one at a time, under a lock that no reader takes. Two things are
//! published: the counts, one word that answers [`CaptureStatus::any_active`] and
//! [`CaptureStatus::any_recording`], and the index, which answers [`CaptureStatus::is_capturing`].
//! A capture is counted before its owner is shown, and hidden before it is uncounted, so an owner
//! is never seen without the count.
//!
//! Beside them stands the gate: what may not happen while a window is open (giving memory back to
//! the device) runs under it, and a window opens under it.

// By path, so that it is found as well where a test or a bench includes this file by path.
#[path = "record/index.rs"]
mod index;

use std::fmt;
use std::sync::Arc;

use static_assertions::{assert_impl_all, assert_not_impl_any, const_assert};

use crate::stream_id::StreamId;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{AtomicU64, Mutex, lock};

use self::index::{Index, Place};

/// A live view of the captures of one device, for any thread and for as long as it is kept.
///
/// Clones show the same device. No call takes a lock that a capture holds, and none waits or
/// retries, so the answers are cheap enough to ask before every launch.
///
/// * A capture is active from the moment it is prepared until it ends, however it ends. It is
///   recording, and active too, while its window is open.
/// * Whoever knows that a capture was prepared sees it; whoever knows that it ended does not. While
///   the transition itself runs on another thread, either answer may be given.
/// * A thread that saw [`is_capturing`](Self::is_capturing) or
///   [`any_recording`](Self::any_recording) answer `true` sees [`any_active`](Self::any_active)
///   answer `true` until that capture ends.
/// * Recording may be shown a moment longer than the window is open, never shorter.
///
/// An answer may be out of date as soon as it is given, unless the caller itself keeps captures
/// from starting and ending.
#[derive(Clone)]
pub struct CaptureStatus {
    record: Arc<Record>,
}
assert_impl_all!(CaptureStatus: Send, Sync);

impl CaptureStatus {
    pub(crate) fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    /// Whether any stream of the device is in a capture, prepared or recording.
    ///
    /// The answer is one load.
    #[must_use]
    #[inline]
    pub fn any_active(&self) -> bool {
        self.record.any_active()
    }

    /// Whether any stream of the device is recording: its window is open.
    ///
    /// The answer is one load, of the same word as [`any_active`](Self::any_active): in it,
    /// whatever is recording is also active.
    #[must_use]
    #[inline]
    pub fn any_recording(&self) -> bool {
        self.record.any_recording()
    }

    /// Whether a capture of `owner` is active, prepared or recording.
    ///
    /// An owner with captures on several streams is capturing until the last of them has ended.
    /// With nothing active the answer is one load. Otherwise its cost does not grow with the number
    /// of active captures, as long as their ids do not collide.
    #[must_use]
    #[inline]
    pub fn is_capturing(&self, owner: StreamId) -> bool {
        self.record.is_capturing(owner)
    }
}

impl fmt::Debug for CaptureStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.record.counts();
        f.debug_struct("CaptureStatus")
            .field("any_active", &active(counts))
            .field("any_recording", &recording(counts))
            .finish()
    }
}

/// The captures of one device, and the gate before its windows.
pub(crate) struct Record {
    /// `recording << 32 | active`. One word, so that one load never shows more recording than
    /// active. It does not overflow: there are never 2^32 captures at once.
    counts: Apart<AtomicU64>,
    index: Apart<Index>,
    locks: Apart<Locks>,
}
assert_impl_all!(Record: Send, Sync);

const ACTIVE: u64 = 1;
const RECORDING: u64 = 1 << 32;

const fn active(counts: u64) -> bool {
    counts != 0
}

const fn recording(counts: u64) -> bool {
    counts >> 32 != 0
}

/// Taken in this order, where both are.
struct Locks {
    /// Held while a window opens, and while what no window may see runs. Apart from `transition`,
    /// or a long free would hold up every `prepare` and every end.
    gate: Mutex<()>,
    /// Held while a transition is published: a few stores, and nothing of the user's.
    transition: Mutex<()>,
}

/// A capture's own place in the record, from its `prepare` to its end, and its phase. There is one,
/// and only [`Record::leave`] takes it back, so a capture ends in the record exactly once.
#[derive(Debug)]
#[must_use = "a capture stays in the record until its entry leaves"]
pub(crate) struct Entry {
    place: Place,
    recording: bool,
}
assert_impl_all!(Entry: Send);
assert_not_impl_any!(Entry: Clone);
const_assert!(size_of::<Entry>() <= 16);

impl Record {
    pub(crate) fn new() -> Self {
        Self {
            counts: Apart(AtomicU64::new(0)),
            index: Apart(Index::new()),
            locks: Apart(Locks {
                gate: Mutex::new(()),
                transition: Mutex::new(()),
            }),
        }
    }

    /// Publishes a prepared capture of `owner`.
    pub(crate) fn prepare(&self, owner: StreamId) -> Entry {
        let _transition = lock(&self.locks.0.transition);
        let counts = self.counts();
        self.publish(counts + ACTIVE);
        if !active(counts) {
            self.index.0.occupy(true);
        }
        Entry {
            place: self.index.0.enter(owner),
            recording: false,
        }
    }

    /// Publishes that a prepared capture records. If it is the device's first open window, `drain`
    /// runs before, under the gate; if that panics, nothing is published.
    pub(crate) fn begin(&self, entry: &mut Entry, drain: impl FnOnce()) {
        let _gate = lock(&self.locks.0.gate);
        if !self.any_recording() {
            drain();
        }
        let _transition = lock(&self.locks.0.transition);
        self.publish(self.counts() + RECORDING);
        entry.recording = true;
    }

    /// Publishes the end of a capture, prepared or recording. The answer is whether the device's
    /// last open window closed with it.
    pub(crate) fn leave(&self, entry: Entry) -> bool {
        let _transition = lock(&self.locks.0.transition);
        let counts = self.counts() - entry.weight();
        self.index.0.leave(entry.place);
        if !active(counts) {
            self.index.0.occupy(false);
        }
        self.publish(counts);
        entry.recording && !recording(counts)
    }

    /// Runs `free` with no window open, and keeps windows from opening until it returns. `None`,
    /// and nothing runs, if one is open.
    pub(crate) fn outside_windows<R>(&self, free: impl FnOnce() -> R) -> Option<R> {
        let _gate = lock(&self.locks.0.gate);
        (!self.any_recording()).then(free)
    }

    #[inline]
    pub(crate) fn any_active(&self) -> bool {
        active(self.counts())
    }

    #[inline]
    pub(crate) fn any_recording(&self) -> bool {
        recording(self.counts())
    }

    #[inline]
    pub(crate) fn is_capturing(&self, owner: StreamId) -> bool {
        self.index.0.shows(owner)
    }

    #[inline]
    fn counts(&self) -> u64 {
        // Acquire, for `false` as well: who learns that a capture ended learns what it did before,
        // and who holds the gate (an end does not take it) sees the closed windows closed.
        self.counts.0.load(Acquire)
    }

    /// Changes the counts, under the transition lock.
    fn publish(&self, counts: u64) {
        // Release, for a `prepare` as well: who reads its count learns of every end before it.
        self.counts.0.store(counts, Release);
    }
}

impl Entry {
    /// Its part of the counts.
    fn weight(&self) -> u64 {
        if self.recording {
            RECORDING + ACTIVE
        } else {
            ACTIVE
        }
    }
}

/// A value alone on its cache line, and on the one that processors fetch along with it.
#[repr(align(128))]
struct Apart<T>(T);
