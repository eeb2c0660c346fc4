//! The rules on the host, and what only the host has: kernels that are closures, which run on the
//! calling thread.

mod errors;
mod inside_kernels;
mod kernels;
mod panics_in_kernels;
#[path = "../suite/mod.rs"]
mod suite;
mod threads;
mod user_values;

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use graph_capture::{
    Buffer, Error, Graph, Host, NoCapture, PhaseName, Prepared, Recording, Stream, StreamId,
    host::Commands, read, read_write, write,
};

use suite::{Bench, Lab, assert_idle, assert_usable, bench, panics, suite, told};

suite!(Host);

/// A stream with x = [1, 2] and y = [0, 0].
fn two_buffers() -> (Stream<NoCapture>, Buffer<f32>, Buffer<f32>) {
    let Bench { stream, x, y, .. } = bench::<Host>();
    (stream, x, y)
}
