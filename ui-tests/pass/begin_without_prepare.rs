// Prepared first, and warmed up by what will be recorded.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let (_stream, graph) = stream.end()?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
