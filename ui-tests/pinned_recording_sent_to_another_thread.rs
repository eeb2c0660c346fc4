//! A recording moves to another thread, on a driver that closes a window only where it was opened.

use std::thread;

use graph_capture::{Error, Stream};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type PinnedDevice = third::Third<true>;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&PinnedDevice::new())?;

    let recording = stream.prepare()?.begin()?;
    spawn(move || recording.end().map(drop).map_err(Error::from));
    Ok(())
}

fn spawn(work: impl FnOnce() -> Result<(), Error> + Send + 'static) {
    thread::spawn(work);
}
