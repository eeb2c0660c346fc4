//! The insides of a recording are exchanged with those of a stream that may wait.

use std::mem::swap;

use graph_capture::{Error, NoCapture, Recording, Stream};

fn wait(idle: &mut Stream<NoCapture>, recording: &mut Stream<Recording>) -> Result<(), Error> {
    swap(&mut **idle, &mut **recording);
    idle.synchronize()
}

fn main() {}
