// `end` gives back the stream, to go on with, beside the graph.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording = prepared.begin()?;
    recording.fill(&scores, 0.0)?;
    let (stream, graph) = recording.end()?;
    stream.write(&scores, &[3.0, 4.0])?;
    assert_eq!(graph.len(), 1);
    assert_eq!(stream.read(&scores)?, [3.0, 4.0]);
    Ok(())
}
