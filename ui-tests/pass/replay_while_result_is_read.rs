// A result that must outlive the next replay is copied.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, download) = stream.capture(|commands| commands.download(&scores))?;

    graph.replay(&stream)?;
    let result = graph.read(&download, &stream)?.to_vec();
    stream.write(&scores, &[3.0, 4.0])?;
    graph.replay(&stream)?;
    assert_eq!(result, [1.0, 2.0]);
    assert_eq!(graph.read(&download, &stream)?, [3.0, 4.0]);
    Ok(())
}
