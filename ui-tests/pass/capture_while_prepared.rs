// The short form alone; with several passes of the warm-up, if those are wanted.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, ()) = stream.capture_with(2, |commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
