//! The device record against its rules, and against a plain list.
#![cfg(not(graph_capture_loom))]
#![allow(dead_code, unreachable_pub)]

#[allow(clippy::duplicate_mod)] // A second time, for `index::home`.
#[path = "../src/record/index.rs"]
mod index;
#[path = "../src/record.rs"]
mod record;
#[path = "../src/stream_id.rs"]
mod stream_id;
#[path = "../src/sync.rs"]
mod sync;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use record::{CaptureStatus, Entry, Record};
use stream_id::StreamId;

fn stream(number: u64) -> StreamId {
    StreamId::new(number)
}

/// The calling thread's id, and the given id of the same number.
fn twins() -> (StreamId, StreamId) {
    let thread = StreamId::current();
    (thread, stream(thread.parts().0))
}

/// Given ids that all start their search in the home line of `owner`.
fn neighbours_of(owner: StreamId) -> impl Iterator<Item = StreamId> {
    let home = index::home(owner);
    (0..).map(stream).filter(move |id| index::home(*id) == home)
}

fn recording(record: &Record, owner: StreamId) -> Entry {
    let mut entry = record.prepare(owner);
    record.begin(&mut entry, || ());
    entry
}

fn panics(call: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

// The phases.

#[test]
fn a_new_record_shows_nothing() {
    let record = Record::new();
    assert!(!record.any_active());
    assert!(!record.any_recording());
    assert!(!record.is_capturing(stream(0)));
}

/// L6
#[test]
fn a_prepared_capture_is_active_and_not_recording() {
    let record = Record::new();
    let entry = record.prepare(stream(1));
    assert!(record.any_active());
    assert!(!record.any_recording());
    assert!(record.is_capturing(stream(1)));
    record.leave(entry);
}

/// L6
#[test]
fn a_recording_capture_is_active_and_recording() {
    let record = Record::new();
    let entry = recording(&record, stream(1));
    assert!(record.any_active());
    assert!(record.any_recording());
    assert!(record.is_capturing(stream(1)));
    record.leave(entry);
}

/// L5
#[test]
fn an_end_from_either_phase_leaves_nothing_behind() {
    let record = Record::new();
    let prepared = record.prepare(stream(1));
    record.leave(prepared);
    assert!(!record.any_active());
    assert!(!record.is_capturing(stream(1)));

    let recorded = recording(&record, stream(1));
    record.leave(recorded);
    assert!(!record.any_active());
    assert!(!record.any_recording());
    assert!(!record.is_capturing(stream(1)));
}

/// L6: nothing but the phase decides, so the counts hold for any mix.
#[test]
fn recording_is_shown_until_the_last_window_closes() {
    let record = Record::new();
    let first = recording(&record, stream(1));
    let second = recording(&record, stream(2));
    let prepared = record.prepare(stream(3));
    record.leave(first);
    assert!(record.any_recording());
    record.leave(second);
    assert!(!record.any_recording());
    assert!(record.any_active());
    record.leave(prepared);
    assert!(!record.any_active());
}

/// M5: the queue is drained whenever the last window closes.
#[test]
fn leave_says_whether_the_last_window_closed() {
    let record = Record::new();
    let first = recording(&record, stream(1));
    let second = recording(&record, stream(2));
    let prepared = record.prepare(stream(3));
    assert!(!record.leave(first), "another window is open");
    assert!(record.leave(second), "the last window");
    assert!(!record.leave(prepared), "not a window");

    let third = recording(&record, stream(1));
    let prepared = record.prepare(stream(2));
    assert!(!record.leave(prepared), "not a window, beside one");
    assert!(record.leave(third), "the last window, and nothing active");
}

// The owners.

/// L7
#[test]
fn no_other_id_is_capturing() {
    let record = Record::new();
    let entry = record.prepare(stream(1));
    let others = (0..2_000).filter(|id| *id != 1);
    assert!(!others.map(stream).any(|id| record.is_capturing(id)));
    let entries: Vec<_> = (2..1_000).map(|id| record.prepare(stream(id))).collect();
    assert!(!(1_000..3_000).any(|id| record.is_capturing(stream(id))));
    for entry in entries.into_iter().chain([entry]) {
        record.leave(entry);
    }
}

/// L7
#[test]
fn a_thread_and_a_given_id_of_one_number_are_two_owners() {
    let (thread, given) = twins();
    let record = Record::new();
    for (owner, other) in [(thread, given), (given, thread)] {
        let entry = record.prepare(owner);
        assert!(record.is_capturing(owner));
        assert!(!record.is_capturing(other));
        record.leave(entry);
        assert!(!record.is_capturing(owner));
    }
}

/// L7: and their namespaces do not stick to the cell that they leave.
#[test]
fn a_cell_takes_owners_of_both_kinds_in_turn() {
    let record = Record::new();
    let thread = StreamId::current();
    let given = neighbours_of(thread).next().unwrap();
    for owner in [thread, given, thread, thread, given, given, thread] {
        let entry = record.prepare(owner);
        assert!(record.is_capturing(owner));
        assert_eq!(record.is_capturing(thread), owner == thread);
        record.leave(entry);
    }
}

/// L7
#[test]
fn an_owner_on_two_streams_is_capturing_until_both_have_ended() {
    let record = Record::new();
    let prepared = record.prepare(stream(1));
    let recorded = recording(&record, stream(1));
    record.leave(prepared);
    assert!(record.is_capturing(stream(1)));
    assert!(record.any_recording());
    let again = record.prepare(stream(1));
    record.leave(recorded);
    assert!(record.is_capturing(stream(1)));
    assert!(!record.any_recording());
    record.leave(again);
    assert!(!record.is_capturing(stream(1)));
}

/// L7: one cell per owner, also where a cell before it has become free.
#[test]
fn an_owner_keeps_its_cell_while_it_is_capturing() {
    let record = Record::new();
    let [before, owner] = first_of(neighbours_of(stream(1)));
    let earlier = record.prepare(before);
    let first = record.prepare(owner);
    record.leave(earlier);
    let second = record.prepare(owner);
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    record.leave(first);
    assert!(record.is_capturing(owner));
    record.leave(second);
    assert!(!record.is_capturing(owner));
}

/// L5: the record does not grow with the captures that were, but with those at once.
#[test]
fn cells_are_used_again() {
    let record = Record::new();
    let mut places = HashSet::new();
    for owner in neighbours_of(stream(1)).take(100) {
        let entry = record.prepare(owner);
        places.insert(format!("{entry:?}"));
        record.leave(entry);
    }
    assert_eq!(places.len(), 1);
}

/// L7
#[test]
fn thousands_of_owners_in_one_line_are_told_apart() {
    let record = Record::new();
    let thread = StreamId::current();
    let owners: Vec<_> = neighbours_of(thread).take(2_000).collect();
    let (entered, absent) = owners.split_at(1_000);
    let of_thread = record.prepare(thread);
    let mut entries: Vec<_> = entered.iter().map(|id| record.prepare(*id)).collect();
    assert!(entered.iter().all(|id| record.is_capturing(*id)));
    assert!(!absent.iter().any(|id| record.is_capturing(*id)));

    let late = entries.split_off(500);
    for entry in entries {
        record.leave(entry);
    }
    let (gone, still) = entered.split_at(500);
    assert!(!gone.iter().any(|id| record.is_capturing(*id)));
    assert!(still.iter().all(|id| record.is_capturing(*id)));
    assert!(record.is_capturing(thread));

    for entry in late.into_iter().chain([of_thread]) {
        record.leave(entry);
    }
    assert!(!owners.iter().any(|id| record.is_capturing(*id)));
    assert!(!record.is_capturing(thread));
    assert!(!record.any_active());
}

/// What keeps a search short: nearly every id that counts up has a line of its own.
#[test]
fn ids_that_count_up_spread_over_the_lines() {
    for step in [1, 2, 8, 1 << 32, 1 << 56] {
        let homes = (0..256).map(|id| index::home(stream(id * step)));
        let lines = homes.collect::<HashSet<_>>().len();
        assert!(lines >= 160, "{lines} lines for ids in steps of {step}");
    }
}

#[test]
fn a_thread_and_a_given_id_of_one_number_start_in_two_lines() {
    let (thread, given) = twins();
    assert_ne!(index::home(thread), index::home(given));
    let beyond = stream(given.parts().0 | 1 << 63);
    assert_eq!(index::home(thread), index::home(beyond));
}

// The gate.

/// M5: the queue is drained before a first window opens, and not while one is open.
#[test]
fn only_the_first_window_drains() {
    let record = Record::new();
    let drains = AtomicUsize::new(0);
    let begin = |owner| {
        let mut entry = record.prepare(owner);
        record.begin(&mut entry, || _ = drains.fetch_add(1, SeqCst));
        entry
    };
    let (first, second) = (begin(stream(1)), begin(stream(2)));
    assert_eq!(drains.load(SeqCst), 1);
    record.leave(first);
    let third = begin(stream(1));
    assert_eq!(drains.load(SeqCst), 1);
    record.leave(second);
    record.leave(third);
    record.leave(begin(stream(1)));
    assert_eq!(drains.load(SeqCst), 2);
}

/// M5
#[test]
fn a_drain_runs_before_recording_is_shown() {
    let record = Record::new();
    let mut entry = record.prepare(stream(1));
    record.begin(&mut entry, || {
        assert!(record.is_capturing(stream(1)));
        assert!(!record.any_recording());
    });
    record.leave(entry);
}

/// M5: from the drain to the open window, nothing else gets through the gate.
#[test]
fn a_drain_and_its_window_are_one_step_at_the_gate() {
    let record = Record::new();
    let mut entry = record.prepare(stream(1));
    thread::scope(|scope| {
        let (freed, answer) = mpsc::channel();
        record.begin(&mut entry, || {
            let record = &record;
            scope.spawn(move || freed.send(record.outside_windows(|| ())));
            let early = answer.recv_timeout(Duration::from_millis(50));
            assert!(early.is_err(), "the gate is held");
        });
        assert_eq!(answer.recv().unwrap(), None);
    });
    record.leave(entry);
}

/// M5
#[test]
fn outside_windows_runs_beside_prepared_captures_and_returns_what_ran() {
    let record = Record::new();
    assert_eq!(record.outside_windows(|| 7), Some(7));
    let entry = record.prepare(stream(1));
    assert_eq!(record.outside_windows(|| 8), Some(8));
    record.leave(entry);
}

/// M5
#[test]
fn outside_windows_runs_nothing_while_a_window_is_open() {
    let record = Record::new();
    let entry = recording(&record, stream(1));
    let ran = AtomicBool::new(false);
    assert_eq!(record.outside_windows(|| ran.store(true, SeqCst)), None);
    assert!(!ran.load(SeqCst));
    record.leave(entry);
    assert_eq!(record.outside_windows(|| 7), Some(7));
}

/// M5: no window opens while memory goes back.
#[test]
fn no_window_opens_while_outside_windows_runs() {
    let record = Record::new();
    let mut entry = record.prepare(stream(1));
    thread::scope(|scope| {
        let opened = record.outside_windows(|| {
            let opening = scope.spawn(|| record.begin(&mut entry, || ()));
            thread::sleep(Duration::from_millis(50));
            assert!(!record.any_recording());
            opening
        });
        opened.unwrap().join().unwrap();
    });
    assert!(record.any_recording());
    record.leave(entry);
}

/// L6, M5: the gate is apart, so a long free holds up no `prepare`, no end and no status.
#[test]
fn captures_are_prepared_and_end_while_outside_windows_runs() {
    let record = Record::new();
    let earlier = record.prepare(stream(1));
    record.outside_windows(|| {
        let entry = record.prepare(stream(2));
        record.leave(earlier);
        assert!(record.is_capturing(stream(2)));
        record.leave(entry);
        assert!(!record.any_active());
    });
}

/// L5, L12
#[test]
fn a_panic_in_a_drain_opens_no_window_and_leaves_the_record_usable() {
    let record = Record::new();
    let mut entry = record.prepare(stream(1));
    assert!(panics(|| record.begin(&mut entry, || panic!("drain"))));
    assert!(record.is_capturing(stream(1)));
    assert!(!record.any_recording());
    assert_eq!(record.outside_windows(|| 7), Some(7));

    record.begin(&mut entry, || ());
    assert!(record.any_recording());
    assert!(record.leave(entry));
    assert!(!record.any_active());
}

/// L5, L12
#[test]
fn a_capture_whose_drain_panicked_ends_as_prepared() {
    let record = Record::new();
    let mut entry = record.prepare(stream(1));
    assert!(panics(|| record.begin(&mut entry, || panic!("drain"))));
    assert!(!record.leave(entry));
    assert!(!record.any_active());
}

/// M5
#[test]
fn a_panic_outside_windows_leaves_the_gate_usable() {
    let record = Record::new();
    assert!(panics(|| {
        record.outside_windows(|| panic!("free"));
    }));
    assert_eq!(record.outside_windows(|| 7), Some(7));
    let entry = recording(&record, stream(1));
    assert!(record.leave(entry));
}

// The status.

/// L7: for every holder of the status.
#[test]
fn every_holder_of_the_status_sees_the_device() {
    let record = Arc::new(Record::new());
    let status = CaptureStatus::new(Arc::clone(&record));
    let clone = status.clone();
    let answers = |owner| {
        let here = [
            status.any_active(),
            status.any_recording(),
            status.is_capturing(owner),
        ];
        let status = clone.clone();
        let there = thread::spawn(move || {
            [
                status.any_active(),
                status.any_recording(),
                status.is_capturing(owner),
            ]
        });
        assert_eq!(here, there.join().unwrap());
        here
    };
    assert_eq!(answers(stream(1)), [false, false, false]);
    let mut entry = record.prepare(stream(1));
    assert_eq!(answers(stream(1)), [true, false, true]);
    assert_eq!(answers(stream(2)), [true, false, false]);
    record.begin(&mut entry, || ());
    assert_eq!(answers(stream(1)), [true, true, true]);
    record.leave(entry);
    assert_eq!(answers(stream(1)), [false, false, false]);
}

#[test]
fn a_status_prints_its_flags() {
    let record = Arc::new(Record::new());
    let status = CaptureStatus::new(Arc::clone(&record));
    let shown = |active, recording| {
        format!("CaptureStatus {{ any_active: {active}, any_recording: {recording} }}")
    };
    assert_eq!(format!("{status:?}"), shown(false, false));
    let mut entry = record.prepare(stream(1));
    assert_eq!(format!("{status:?}"), shown(true, false));
    record.begin(&mut entry, || ());
    assert_eq!(format!("{status:?}"), shown(true, true));
    record.leave(entry);
    assert_eq!(format!("{status:?}"), shown(false, false));
}

// Against a plain list.

/// Owners that collide: ids of threads, given ids of the same numbers, and given ids that start in
/// the same line as the first thread's.
static OWNERS: LazyLock<Vec<StreamId>> = LazyLock::new(|| {
    let threads = [(); 3].map(|()| thread::spawn(StreamId::current).join().unwrap());
    let given = threads.map(|id| stream(id.parts().0));
    let [thread, ..] = threads;
    let neighbours = neighbours_of(thread).take(5);
    threads.into_iter().chain(given).chain(neighbours).collect()
});

#[derive(Clone, Debug)]
enum Step {
    Prepare(usize),
    Begin(usize),
    Leave(usize),
    OutsideWindows,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..OWNERS.len()).prop_map(Step::Prepare),
        3 => any::<usize>().prop_map(Step::Begin),
        3 => any::<usize>().prop_map(Step::Leave),
        1 => Just(Step::OutsideWindows),
    ]
}

/// What the record stands for, as simple as can be.
#[derive(Default)]
struct Model {
    captures: Vec<Capture>,
}

struct Capture {
    owner: StreamId,
    recording: bool,
    entry: Entry,
}

impl Model {
    fn recording(&self) -> bool {
        self.captures.iter().any(|capture| capture.recording)
    }

    fn is_capturing(&self, owner: StreamId) -> bool {
        self.captures.iter().any(|capture| capture.owner == owner)
    }

    fn take(&mut self, nth: usize) -> Option<Capture> {
        let at = nth.checked_rem(self.captures.len())?;
        Some(self.captures.remove(at))
    }
}

proptest! {
    /// L5, L6, L7, M5
    #[test]
    fn the_record_answers_like_a_list_of_captures(steps in prop::collection::vec(step(), 0..100)) {
        let record = Record::new();
        let mut model = Model::default();
        for step in steps {
            let was_recording = model.recording();
            match step {
                Step::Prepare(nth) => {
                    let owner = *OWNERS.get(nth).unwrap();
                    let entry = record.prepare(owner);
                    model.captures.push(Capture { owner, recording: false, entry });
                }
                Step::Begin(nth) => {
                    let Some(mut capture) = model.take(nth) else { continue };
                    if !capture.recording {
                        let mut drained = false;
                        record.begin(&mut capture.entry, || drained = true);
                        prop_assert_eq!(drained, !was_recording);
                        capture.recording = true;
                    }
                    model.captures.push(capture);
                }
                Step::Leave(nth) => {
                    let Some(capture) = model.take(nth) else { continue };
                    let last = was_recording && !model.recording();
                    prop_assert_eq!(record.leave(capture.entry), last);
                }
                Step::OutsideWindows => {
                    let ran = record.outside_windows(|| 7);
                    prop_assert_eq!(ran, (!was_recording).then_some(7));
                }
            }
            prop_assert_eq!(record.any_active(), !model.captures.is_empty());
            prop_assert_eq!(record.any_recording(), model.recording());
            for owner in OWNERS.iter() {
                prop_assert_eq!(record.is_capturing(*owner), model.is_capturing(*owner));
            }
        }
    }
}

// Many threads at once.

const ROUNDS: usize = 20_000;

/// L5, L7: three writers come and go in one line, around a capture that stays.
#[test]
fn under_stress_no_owner_is_lost_and_none_appears_that_never_was() {
    let record = Record::new();
    let [stays, absent, first, second, shared] = first_of(neighbours_of(stream(1)));
    let staying = record.prepare(stays);
    let write = |owner| {
        for _ in 0..ROUNDS {
            let mine = record.prepare(owner);
            let mut ours = record.prepare(shared);
            record.begin(&mut ours, || ());
            assert!(record.is_capturing(owner) && record.is_capturing(shared));
            assert!(record.any_recording());
            record.leave(mine);
            assert!(!record.is_capturing(owner) && record.is_capturing(shared));
            record.leave(ours);
        }
    };
    thread::scope(|scope| {
        let writers = [
            scope.spawn(|| write(first)),
            scope.spawn(|| write(second)),
            scope.spawn(|| write(StreamId::current())),
        ];
        while !writers.iter().all(|writer| writer.is_finished()) {
            assert!(record.is_capturing(stays), "a lost owner");
            assert!(!record.is_capturing(absent), "a ghost");
            assert!(record.any_active());
        }
    });
    assert!(!record.any_recording());
    let gone = [absent, first, second, shared];
    assert!(!gone.into_iter().any(|owner| record.is_capturing(owner)));
    record.leave(staying);
    assert!(!record.any_active());
}

/// M5: what runs outside windows never meets an open one.
#[test]
fn under_stress_nothing_is_freed_inside_a_window() {
    let record = Record::new();
    let windows = AtomicUsize::new(0);
    let outside = || assert_eq!(windows.load(SeqCst), 0);
    let capture = |owner| {
        for _ in 0..ROUNDS / 2 {
            let mut entry = record.prepare(owner);
            record.begin(&mut entry, outside);
            windows.fetch_add(1, SeqCst);
            windows.fetch_sub(1, SeqCst);
            if record.leave(entry) {
                record.outside_windows(outside);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| capture(stream(1)));
        scope.spawn(|| capture(stream(2)));
        scope.spawn(|| (0..ROUNDS).for_each(|_| _ = record.outside_windows(outside)));
    });
    assert!(!record.any_active());
}

fn first_of<const N: usize>(mut ids: impl Iterator<Item = StreamId>) -> [StreamId; N] {
    std::array::from_fn(|_| ids.next().unwrap())
}
