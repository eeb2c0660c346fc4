// The graph stays as long as its result is looked at. The buffer may go.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, download) = stream.capture(|commands| commands.download(&scores))?;
    drop(scores);

    graph.replay(&stream)?;
    let result = graph.read(&download, &stream)?;
    assert_eq!(result, [1.0, 2.0]);
    drop(graph);
    Ok(())
}
