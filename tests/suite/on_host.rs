//! The launches of the rules on the host.

use graph_capture::{Buffer, Commands, Error, Host, read, read_write, write};

use super::Lab;

impl Lab for Host {
    fn device() -> Self {
        // Made by the builder, so that it counts its steps.
        Self::builder().build()
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
