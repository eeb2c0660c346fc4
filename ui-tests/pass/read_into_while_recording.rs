// The read comes after `end` and a replay.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 3.0))?;
    graph.replay(&stream)?;
    let mut result = [0.0; 2];
    stream.read_into(&scores, &mut result)?;
    assert_eq!(result, [3.0, 3.0]);
    Ok(())
}
