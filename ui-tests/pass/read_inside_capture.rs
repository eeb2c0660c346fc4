// The captured function returns a download, which is read after each replay.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, result) = stream.capture(|commands| {
        commands.fill(&scores, 0.0)?;
        commands.download(&scores)
    })?;
    graph.replay(&stream)?;
    assert_eq!(graph.read(&result, &stream)?, [0.0, 0.0]);
    Ok(())
}
