//! Memory on its way back to the driver, under the model checker: a free never reaches the device
//! while a window of it is open (M5).
//!
//! ```sh
//! RUSTFLAGS="--cfg graph_capture_loom" cargo test --release --test loom_memory
//! ```
#![cfg(graph_capture_loom)]
#![allow(dead_code, unreachable_pub)]
// Loom runs the threads of a model one at a time, and asks for neither `Send` nor `Sync`.
#![allow(clippy::arc_with_non_send_sync)]

#[path = "../src/record.rs"]
mod record;
#[path = "../src/memory/returns.rs"]
mod returns;
#[path = "../src/stream_id.rs"]
mod stream_id;
#[path = "../src/sync.rs"]
mod sync;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use record::Record;
use returns::Returns;
use stream_id::StreamId;

/// A device: its driver state is a cell, which two threads must never touch at once. A window
/// touches it while it is open, and so does a free.
struct Device {
    record: Record,
    returns: Returns<u32>,
    driver: UnsafeCell<Driver>,
}

#[derive(Default)]
struct Driver {
    open: bool,
    freed: Vec<u32>,
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            record: Record::new(),
            returns: Returns::new(),
            driver: UnsafeCell::new(Driver::default()),
        })
    }

    fn driver<R>(&self, f: impl FnOnce(&mut Driver) -> R) -> R {
        // SAFETY: that no two threads are here at once is what loom checks.
        self.driver.with_mut(|driver| f(unsafe { &mut *driver }))
    }

    /// What the pool does under the gate.
    fn drain(&self) {
        for memory in self.returns.take() {
            self.driver(|driver| {
                assert!(!driver.open, "a free inside a window");
                driver.freed.push(memory);
            });
        }
    }

    /// What a drop does, and whoever next gives memory back.
    fn drop_and_give_back(&self, memory: u32) {
        self.returns.put([memory]);
        self.record.outside_windows(|| self.drain());
    }

    /// A capture, as its stream runs it.
    fn capture(&self, owner: StreamId) {
        let mut entry = self.record.prepare(owner);
        self.record.begin(&mut entry, || self.drain());
        self.driver(|driver| driver.open = true);
        thread::yield_now();
        self.driver(|driver| driver.open = false);
        if self.record.leave(entry) {
            self.record.outside_windows(|| self.drain());
        }
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut loom = loom::model::Builder::new();
    loom.preemption_bound = Some(3);
    loom.check(model);
}

/// M5: `begin` against a drop and a drain.
#[test]
fn a_free_never_reaches_the_device_while_a_window_is_open() {
    check(|| {
        let device = Device::new();
        let captures = Arc::clone(&device);
        let capture = thread::spawn(move || captures.capture(StreamId::new(1)));
        let drops = Arc::clone(&device);
        let dropped = thread::spawn(move || drops.drop_and_give_back(7));
        capture.join().unwrap();
        dropped.join().unwrap();
        // Whoever came last freed it: nothing waits for ever.
        device.driver(|driver| assert_eq!(driver.freed, [7]));
    });
}

/// M5: memory that joins the queue while a window is open, and only that, goes when it closed.
#[test]
fn what_waits_for_a_window_is_freed_when_it_closed() {
    check(|| {
        let device = Device::new();
        let mut entry = device.record.prepare(StreamId::new(1));
        device.record.begin(&mut entry, || device.drain());
        let drops = Arc::clone(&device);
        let dropped = thread::spawn(move || drops.drop_and_give_back(7));
        assert!(device.record.leave(entry));
        device.record.outside_windows(|| device.drain());
        dropped.join().unwrap();
        device.driver(|driver| assert_eq!(driver.freed, [7]));
    });
}

/// M5: of two drops neither is lost, and neither is freed twice.
#[test]
fn two_drops_at_once_are_each_freed_once() {
    check(|| {
        let device = Device::new();
        let threads = [1, 2].map(|memory| {
            let device = Arc::clone(&device);
            thread::spawn(move || device.drop_and_give_back(memory))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        device.driver(|driver| {
            driver.freed.sort_unstable();
            assert_eq!(driver.freed, [1, 2]);
        });
    });
}
