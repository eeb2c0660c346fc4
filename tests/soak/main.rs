//! What takes many runs to show: a capture in which every step fails in turn, a thousand captures,
//! and the habits of programs that capture and go wrong.

mod faults;
mod habits;
#[path = "../suite/mod.rs"]
#[allow(unused_imports, unused_macros)] // The rules run elsewhere.
mod suite;
#[path = "../third/mod.rs"]
#[allow(dead_code)] // Its faults serve elsewhere.
mod third;
mod thousand;

use graph_capture::{Buffer, DeviceMemory, Error, Host, host::Commands, read, read_write, write};

use suite::Lab;
use third::{Launches as _, Third};

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

type Free = Third<false>;

impl Lab for Free {
    fn device() -> Self {
        Self::new()
    }

    #[track_caller]
    fn add(
        commands: &graph_capture::Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        by: f32,
    ) -> Result<(), Error> {
        commands.add(x, y, by)
    }

    #[track_caller]
    fn accumulate(
        commands: &graph_capture::Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
    ) -> Result<(), Error> {
        commands.accumulate(x, y)
    }

    #[track_caller]
    fn touch(
        commands: &graph_capture::Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        also_read: bool,
    ) -> Result<(), Error> {
        if also_read {
            commands.custom("touch", &[], (read(x), read_write(y)), |_, _| Ok(()))
        } else {
            commands.custom("touch", &[], (read(x), write(y)), |_, _| Ok(()))
        }
    }
}

/// The device holds nothing but these bytes, which could not be freed.
#[track_caller]
fn assert_holds_only(memory: DeviceMemory, lost: usize) {
    let DeviceMemory {
        in_use,
        held_by_graphs,
        free,
        waiting,
        allocated,
        ..
    } = memory;
    let figures = [
        in_use,
        held_by_graphs,
        free,
        waiting,
        memory.lost,
        allocated,
    ];
    assert_eq!(figures, [0, 0, 0, 0, lost, lost], "{memory:?}");
}
