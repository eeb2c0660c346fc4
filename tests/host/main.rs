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

impl Lab for Host {
    fn device() -> Self {
        Self::new()
    }

    #[track_caller]
    fn add(commands: &Commands, x: &Buffer<f32>, y: &Buffer<f32>, by: f32) -> Result<(), Error> {
        commands.launch("add", (read(x), write(y)), move |(x, y)| {
            for (y, x) in y.iter_mut().zip(x) {
                *y = x + by;
            }
        })
    }

    #[track_caller]
    fn accumulate(commands: &Commands, x: &Buffer<f32>, y: &Buffer<f32>) -> Result<(), Error> {
        commands.launch("accumulate", (read(x), read_write(y)), |(x, y)| {
            for (y, x) in y.iter_mut().zip(x) {
                *y += x;
            }
        })
    }

    #[track_caller]
    fn touch(
        commands: &Commands,
        x: &Buffer<f32>,
        y: &Buffer<f32>,
        also_read: bool,
    ) -> Result<(), Error> {
        if also_read {
            commands.launch("touch", (read(x), read_write(y)), |_| ())
        } else {
            commands.launch("touch", (read(x), write(y)), |_| ())
        }
    }
}

suite!(Host);

/// A stream with x = [1, 2] and y = [0, 0].
fn two_buffers() -> (Stream<NoCapture>, Buffer<f32>, Buffer<f32>) {
    let Bench { stream, x, y, .. } = bench::<Host>();
    (stream, x, y)
}
