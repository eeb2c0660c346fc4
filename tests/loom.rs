//! The device record under a model checker, which tries the orders in which threads may run and
//! the values that weak memory may show them:
//!
//! ```sh
//! RUSTFLAGS="--cfg graph_capture_loom" cargo test --release --test loom
//! ```
//!
//! Every model has two writers and a reader, all spawned, and starts from cells that still carry
//! the names of owners that left: an empty record, or a reader on the model's main thread, hides
//! most errors. All owners share one chain of three cells.
//!
//! A reader judges by what it has seen, or by flags that loom does not model: those are raised
//! before a transition starts and read after an answer was given, so they only ever excuse.
#![cfg(graph_capture_loom)]
#![allow(dead_code, unreachable_pub)]

#[path = "../src/record.rs"]
mod record;
#[path = "../src/stream_id.rs"]
mod stream_id;
#[path = "../src/sync.rs"]
mod sync;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool as Unmodelled, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use loom::thread::{self, JoinHandle};

use record::{Entry, Record};
use stream_id::StreamId;

const A: StreamId = StreamId::new(0xA);
const B: StreamId = StreamId::new(0xB);
const C: StreamId = StreamId::new(0xC);

/// Runs `model` in every order of its threads with up to three preemptions.
fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let (orders, start) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(3);
    let counted = Arc::clone(&orders);
    loom.check(move || {
        counted.fetch_add(1, SeqCst);
        model();
    });
    let (orders, seconds) = (orders.load(SeqCst), start.elapsed().as_secs_f32());
    println!("{name}: {orders} interleavings in {seconds:.1} s");
}

/// A record that some owners have already left, in this order of cells.
fn record_left_by<const N: usize>(owners: [StreamId; N]) -> Arc<Record> {
    let record = Record::new();
    for entry in owners.map(|owner| record.prepare(owner)) {
        record.leave(entry);
    }
    Arc::new(record)
}

fn recording(record: &Record, owner: StreamId) -> Entry {
    let mut entry = record.prepare(owner);
    record.begin(&mut entry, || ());
    entry
}

fn spawn(record: &Arc<Record>, thread: impl FnOnce(&Record) + 'static) -> JoinHandle<()> {
    let record = Arc::clone(record);
    thread::spawn(move || thread(&record))
}

fn join<const N: usize>(threads: [JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// Raised before a capture starts to end.
#[derive(Clone, Default)]
struct Ending {
    raised: Arc<Unmodelled>,
    /// Loom tries the orders only of what it models: with this, those that come before the end.
    order: Arc<AtomicBool>,
}

impl Ending {
    fn raise(&self) {
        self.order.store(true, Relaxed);
        self.raised.store(true, SeqCst);
    }

    fn is_raised(&self) -> bool {
        self.order.load(Relaxed);
        self.raised.load(SeqCst)
    }
}

/// L7: counted before it is shown, hidden before it is uncounted.
#[test]
fn what_is_seen_capturing_is_active() {
    check("seen capturing, so active", || {
        let record = record_left_by([B, A]);
        let ending = Ending::default();
        let ends = ending.clone();
        join([
            spawn(&record, move |record| {
                let entry = record.prepare(A);
                ends.raise();
                record.leave(entry);
            }),
            spawn(&record, |record| _ = record.leave(record.prepare(B))),
            spawn(&record, move |record| {
                if record.is_capturing(A) {
                    assert!(record.any_active() || ending.is_raised());
                }
            }),
        ]);
    });
}

/// L6, L7, M5: recording is active, its owner is shown, and the queue was drained.
#[test]
fn what_is_seen_recording_is_active_and_has_an_owner() {
    check("seen recording, so active", || {
        let record = record_left_by([C, A]);
        let ending = Ending::default();
        let ends = ending.clone();
        let drained = Arc::new(AtomicBool::new(false));
        let drain = Arc::clone(&drained);
        join([
            spawn(&record, move |record| {
                let mut entry = record.prepare(A);
                record.begin(&mut entry, || drain.store(true, Relaxed));
                ends.raise();
                record.leave(entry);
            }),
            spawn(&record, |record| _ = record.prepare(B)),
            spawn(&record, move |record| {
                if record.any_recording() {
                    assert!(drained.load(Relaxed));
                    let shown = record.any_active() && record.is_capturing(A);
                    assert!(shown || ending.is_raised());
                }
            }),
        ]);
    });
}

/// L7: true from `prepare` to the end, and not true, false, true.
#[test]
fn a_capture_once_seen_is_seen_until_it_ends() {
    check("seen once, seen until the end", || {
        let record = record_left_by([B]);
        let earlier = record.prepare(A);
        let ending = Ending::default();
        let ends = ending.clone();
        join([
            spawn(&record, move |record| {
                record.leave(earlier);
                let entry = record.prepare(B);
                ends.raise();
                record.leave(entry);
            }),
            spawn(&record, |record| _ = record.prepare(C)),
            spawn(&record, move |record| {
                if record.is_capturing(B) {
                    assert!(record.is_capturing(B) || ending.is_raised());
                }
            }),
        ]);
    });
}

/// L7: whoever learns by the record that `prepare` returned sees the capture.
#[test]
fn a_capture_is_seen_by_who_sees_what_came_after_it() {
    check("seen by way of the record", || {
        let record = record_left_by([B, A, C]);
        join([
            spawn(&record, |record| {
                let _entries = [record.prepare(A), record.prepare(B)];
            }),
            spawn(&record, |record| _ = record.leave(record.prepare(C))),
            spawn(&record, |record| {
                if record.is_capturing(B) {
                    assert!(record.is_capturing(A));
                }
            }),
        ]);
    });
}

/// L7: whoever learns by the record that a capture ended does not see it.
#[test]
fn an_ended_capture_is_not_seen_by_who_sees_what_came_after_it() {
    check("ended by way of the record", || {
        let record = record_left_by([B, C]);
        let entry = record.prepare(A);
        join([
            spawn(&record, move |record| {
                record.leave(entry);
                let _later = record.prepare(B);
            }),
            spawn(&record, |record| _ = record.leave(record.prepare(C))),
            spawn(&record, |record| {
                if record.is_capturing(B) {
                    assert!(!record.is_capturing(A));
                }
            }),
        ]);
    });
}

/// L7: whoever learns by another way that `prepare` returned sees the capture.
#[test]
fn a_capture_is_seen_by_who_is_told_of_it() {
    check("seen after word of it", || {
        let record = record_left_by([B, A]);
        let prepared = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&prepared);
        join([
            spawn(&record, move |record| {
                let _entry = record.prepare(A);
                prepared.store(true, Release);
            }),
            spawn(&record, |record| _ = record.leave(record.prepare(B))),
            spawn(&record, move |record| {
                if told.load(Acquire) {
                    assert!(record.is_capturing(A));
                }
            }),
        ]);
    });
}

/// L7: whoever learns by another way that a capture ended does not see it.
#[test]
fn an_ended_capture_is_not_seen_by_who_is_told_of_its_end() {
    check("ended after word of it", || {
        let record = record_left_by([B]);
        let entry = record.prepare(A);
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        join([
            spawn(&record, move |record| {
                record.leave(entry);
                ended.store(true, Release);
            }),
            spawn(&record, |record| _ = record.leave(record.prepare(B))),
            spawn(&record, move |record| {
                if told.load(Acquire) {
                    assert!(!record.is_capturing(A));
                }
            }),
        ]);
    });
}

/// L7: one cell per owner, or a reader misses both of its captures.
#[test]
fn an_owner_that_changes_streams_is_never_missed() {
    check("an owner changes streams", || {
        let record = record_left_by([C]);
        let before = record.prepare(B);
        let first = record.prepare(A);
        join([
            spawn(&record, move |record| {
                let _second = record.prepare(A);
                record.leave(first);
            }),
            spawn(&record, move |record| _ = record.leave(before)),
            spawn(&record, |record| assert!(record.is_capturing(A))),
        ]);
    });
}

/// L5: two transitions of one owner never run into each other.
#[test]
fn an_owner_on_two_threads_is_counted_exactly() {
    check("an owner on two threads", || {
        let record = record_left_by([A]);
        let come_and_go = |record: &Record| {
            let entry = record.prepare(A);
            assert!(record.is_capturing(A));
            record.leave(entry);
        };
        join([
            spawn(&record, come_and_go),
            spawn(&record, come_and_go),
            spawn(&record, |record| assert!(!record.is_capturing(B))),
        ]);
        assert!(!record.any_active());
        assert!(!record.is_capturing(A));
    });
}

/// L5: two windows that open at once are both counted.
#[test]
fn windows_that_open_at_once_are_counted_exactly() {
    check("two windows at once", || {
        let record = record_left_by([C]);
        let entries = [A, B].map(|owner| record.prepare(owner));
        let drains = Arc::new(AtomicUsize::new(0));
        let [first, second] = entries.map(|mut entry| {
            let drains = Arc::clone(&drains);
            spawn(&record, move |record| {
                record.begin(&mut entry, || _ = drains.fetch_add(1, SeqCst));
                assert!(record.any_recording());
                record.leave(entry);
            })
        });
        let reader = spawn(&record, |record| assert!(!record.is_capturing(C)));
        join([first, second, reader]);
        assert!(drains.load(SeqCst) >= 1);
        assert!(!record.any_active() && !record.any_recording());
    });
}

/// L7: no other id, also not one whose name a cell still carries, and also not while cells change.
#[test]
fn no_owner_is_seen_that_is_not_there() {
    check("no ghosts", || {
        let record = record_left_by([A, B]);
        let come_and_go = |record: &Record| _ = record.leave(record.prepare(C));
        join([
            spawn(&record, come_and_go),
            spawn(&record, come_and_go),
            spawn(&record, |record| assert!(!record.is_capturing(A))),
        ]);
    });
}

/// L7: a thread's id and a given id of the same number are two owners.
#[test]
fn no_owner_is_seen_in_place_of_its_twin() {
    let thread = StreamId::current();
    let given = StreamId::new(thread.parts().0);
    check("no twins", move || {
        let record = record_left_by([given]);
        let stays = record.prepare(C);
        join([
            spawn(&record, move |record| {
                record.leave(record.prepare(thread));
            }),
            spawn(&record, move |record| {
                record.leave(record.prepare(A));
            }),
            spawn(&record, move |record| {
                assert!(!record.is_capturing(given));
                assert!(record.is_capturing(C));
            }),
        ]);
        record.leave(stays);
    });
}

/// L3: whoever sees in any way that a capture ended sees all that was done in its window.
#[test]
fn an_end_is_not_seen_before_the_window_closed() {
    let ended: [fn(&Record) -> bool; 3] = [
        |record| !record.is_capturing(A),
        |record| !record.any_recording(),
        |record| !record.any_active(),
    ];
    for ended in ended {
        check("closed, then ended", move || {
            let record = record_left_by([B]);
            let entry = recording(&record, A);
            let closed = Arc::new(AtomicBool::new(false));
            let close = Arc::clone(&closed);
            join([
                spawn(&record, move |record| {
                    close.store(true, Relaxed);
                    record.leave(entry);
                }),
                spawn(&record, |record| _ = record.leave(record.prepare(B))),
                spawn(&record, move |record| {
                    if ended(record) {
                        assert!(closed.load(Relaxed));
                    }
                }),
            ]);
        });
    }
}

/// L7: whoever sees the device's only window closed does not see its owner.
#[test]
fn an_owner_is_hidden_before_its_window_is_uncounted() {
    check("hidden, then uncounted", || {
        let record = record_left_by([C]);
        let _stays = record.prepare(B);
        let entry = recording(&record, A);
        join([
            spawn(&record, move |record| _ = record.leave(entry)),
            spawn(&record, |record| _ = record.leave(record.prepare(C))),
            spawn(&record, |record| {
                if !record.any_recording() {
                    assert!(!record.is_capturing(A));
                }
            }),
        ]);
    });
}

/// L6: whatever else opens and closes, and the last to close is told so.
#[test]
fn a_device_records_until_its_last_window_closes() {
    check("the last window", || {
        let record = record_left_by([C]);
        let (first, second) = (recording(&record, A), recording(&record, B));
        let lasts = Arc::new(AtomicUsize::new(0));
        let ending = [Ending::default(), Ending::default()];
        let end = |entry, ends: &Ending| {
            let (ends, lasts) = (ends.clone(), Arc::clone(&lasts));
            move |record: &Record| {
                ends.raise();
                lasts.fetch_add(usize::from(record.leave(entry)), SeqCst);
            }
        };
        let [ends_first, ends_second] = &ending;
        join([
            spawn(&record, end(first, ends_first)),
            spawn(&record, end(second, ends_second)),
            spawn(&record, move |record| {
                let shown = record.any_recording();
                assert!(shown || ending.iter().all(Ending::is_raised));
            }),
        ]);
        assert_eq!(lasts.load(SeqCst), 1);
        assert!(!record.any_active() && !record.any_recording());
    });
}

/// M5: what `begin` drains and what runs outside windows never meet an open window, or each other.
#[test]
fn nothing_is_freed_inside_a_window() {
    check("the gate", || {
        let record = record_left_by([B, A]);
        // Loom reports it if a page is freed while, or without seeing that, another uses it.
        #[allow(clippy::arc_with_non_send_sync)] // Loom runs its threads on one.
        let pages = Arc::new(UnsafeCell::new(()));
        let free = |pages: &UnsafeCell<()>| pages.with_mut(|_| ());
        let window = |owner| {
            let pages = Arc::clone(&pages);
            move |record: &Record| {
                let mut entry = record.prepare(owner);
                record.begin(&mut entry, || free(&pages));
                pages.with(|_| ());
                record.leave(entry);
            }
        };
        join([
            spawn(&record, window(A)),
            spawn(&record, window(B)),
            spawn(&record, {
                let pages = Arc::clone(&pages);
                move |record| _ = record.outside_windows(|| free(&pages))
            }),
        ]);
        assert!(record.outside_windows(|| free(&pages)).is_some());
    });
}
