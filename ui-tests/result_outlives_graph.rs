//! A result is looked at when its graph has gone.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, download) = stream.capture(|commands| commands.download(&scores))?;

    graph.replay(&stream)?;
    let result = graph.read(&download, &stream)?;
    drop(graph);
    println!("{result:?}");
    Ok(())
}
