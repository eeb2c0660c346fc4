// The work is issued twice: once for real, as the warm-up, and once to be recorded.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let (stream, mut graph) = stream.end()?;
    graph.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
