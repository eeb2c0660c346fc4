//! The launches of the rules on the backend of a third party.

use graph_capture::{Buffer, Commands, Error, read, read_write, write};

use crate::suite::Lab;
use crate::third::{Launches as _, Third};

impl<const PINNED: bool> Lab for Third<PINNED> {
    fn device() -> Self {
        Self::new()
    }

    #[track_caller]
    fn add(
        commands: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
        by: f32,
    ) -> Result<(), Error> {
        commands.add(x, y, by)
    }

    #[track_caller]
    fn accumulate(
        commands: &Commands<Self>,
        x: &Buffer<f32, Self>,
        y: &Buffer<f32, Self>,
    ) -> Result<(), Error> {
        commands.accumulate(x, y)
    }

    #[track_caller]
    fn touch(
        commands: &Commands<Self>,
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
