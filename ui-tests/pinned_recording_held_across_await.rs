//! A spawned task awaits while its window is open, and may go on on another thread, on a driver that
//! closes a window only where it was opened.

use graph_capture::{Error, Stream};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type PinnedDevice = third::Third<true>;

fn main() {
    spawn(record(PinnedDevice::new()));
}

async fn record(device: PinnedDevice) -> Result<(), Error> {
    let stream = Stream::on(&device)?;
    let recording = stream.prepare()?.begin()?;
    next_request().await;
    let (_stream, _graph) = recording.end()?;
    Ok(())
}

async fn next_request() {}

fn spawn(_task: impl Future<Output = Result<(), Error>> + Send + 'static) {}
