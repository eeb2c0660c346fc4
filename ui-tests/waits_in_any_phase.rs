//! A function that takes a stream in any phase waits on it, and so would while it records.

use graph_capture::{Error, Phase, Stream};

fn settle<P: Phase>(stream: &Stream<P>) -> Result<(), Error> {
    stream.synchronize()
}

fn main() {
    let _ = settle::<graph_capture::NoCapture>;
}
