// `abort` gives back the stream, from which a capture can start again.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let prepared = Host::new().stream()?.prepare()?;
    let scores = prepared.upload(&[1.0, 2.0])?;

    let recording = prepared.begin()?;
    recording.fill(&scores, 0.0).ok();
    let stream = recording.abort();
    let (_stream, graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
