// A stream is opened without a capture, and makes its way to `Recording`.

use graph_capture::{Error, Host, Recording, Stream};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let stream = Stream::on(&device)?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording: Stream<Recording> = prepared.begin()?;
    recording.fill(&scores, 0.0)?;
    let (_stream, graph) = recording.end()?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
