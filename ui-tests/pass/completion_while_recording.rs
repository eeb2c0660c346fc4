// The point is marked behind a replay.

use std::time::Duration;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)?;
    let filled = stream.completion()?;
    assert!(filled.wait(Duration::from_secs(1))?);
    Ok(())
}
