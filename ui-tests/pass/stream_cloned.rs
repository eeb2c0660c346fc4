// Two streams of one device; their device and their buffers can be shared.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (stream, running) = (device.clone().stream()?, device.stream()?);
    let scores = running.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording = prepared.begin()?;
    running.synchronize()?;
    recording.fill(&scores, 0.0)?;
    let (_stream, graph) = recording.end()?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
