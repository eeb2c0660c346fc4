// Commands of one stream run in their order without waits; the host waits behind the replay.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)?;
    stream.synchronize()?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
