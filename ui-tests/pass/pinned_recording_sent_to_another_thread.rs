// The whole window is opened and closed by the thread that the stream moved to.

use std::thread;

use graph_capture::{Error, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type PinnedDevice = third::Third<true>;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&PinnedDevice::new())?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recorder = thread::spawn(move || {
        let recording = prepared.begin()?;
        recording.fill(&scores, 0.0)?;
        Ok::<_, Error>(recording.end()?)
    });
    let (_stream, graph) = recorder.join().expect("no panic")?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
