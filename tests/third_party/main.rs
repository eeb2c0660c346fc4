//! The rules on a backend of a third party, and what only its fussy driver can show.

mod bystanders;
mod memory;
mod order;
mod server;
#[path = "../suite/mod.rs"]
mod suite;
#[path = "../third/mod.rs"]
mod third;
#[path = "../third/lab.rs"]
mod third_lab;
mod transitions;

use std::sync::Arc;
use std::thread;

use graph_capture::{Backend, Buffer, DeviceMemory, Error, NoCapture, Prepared, Recording, Stream};
use static_assertions::{assert_impl_all, assert_not_impl_any};

use suite::{Bench, assert_idle, assert_usable, bench, panics, status, suite, told};
use third::{Fault, Launches as _, Third};

mod free {
    use super::*;
    suite!(Third<false>);
}

mod pinned {
    use super::*;
    suite!(Third<true>);
}

assert_impl_all!(Stream<Recording, Third<false>>: Send);
assert_impl_all!(Stream<Prepared, Third<true>>: Send);
assert_impl_all!(Stream<NoCapture, Third<true>>: Send);
assert_not_impl_any!(Stream<Recording, Third<true>>: Send);

type Free = Third<false>;

/// A stream with its window open, over `y = x + 1`.
fn recording(bench: Bench<Free>) -> (Free, Stream<Recording, Free>) {
    let Bench {
        device,
        stream,
        x,
        y,
    } = bench;
    let stream = stream.prepare().unwrap();
    stream.add(&x, &y, 1.0).unwrap();
    let stream = stream.begin().unwrap();
    stream.add(&x, &y, 1.0).unwrap();
    (device, stream)
}
