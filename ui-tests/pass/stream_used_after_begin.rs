// What should stay out of the recording is issued on another stream.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (stream, input) = (device.stream()?, device.stream()?);
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;

    let recording = prepared.begin()?;
    input.write(&scores, &[3.0, 4.0])?;
    recording.fill(&scores, 0.0)?;
    let (_stream, graph) = recording.end()?;
    assert_eq!(graph.len(), 1);
    assert_eq!(input.read(&scores)?, [3.0, 4.0]);
    Ok(())
}
