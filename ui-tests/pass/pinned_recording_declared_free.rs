// A backend whose driver closes windows on any thread promises it by `EndsAnywhere`.

use std::thread;

use graph_capture::backend::EndsAnywhere;
use graph_capture::{Backend, Error, Recording, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type FreeDevice = third::Third<false>;

fn abort_elsewhere<B: EndsAnywhere + Backend<Driver: Send>>(recording: Stream<Recording, B>) {
    thread::scope(|scope| {
        scope.spawn(|| drop(recording.abort()));
    });
}

fn main() -> Result<(), Error> {
    let stream = Stream::on(&FreeDevice::new())?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let status = prepared.status().clone();
    abort_elsewhere(prepared.begin()?);
    assert!(!status.any_active());
    Ok(())
}
