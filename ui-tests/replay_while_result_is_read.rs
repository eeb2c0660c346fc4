//! A graph is replayed while the result of its last replay is still looked at.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, download) = stream.capture(|commands| commands.download(&scores))?;

    graph.replay(&stream)?;
    let result = graph.read(&download, &stream)?;
    graph.replay(&stream)?;
    println!("{result:?}");
    Ok(())
}
