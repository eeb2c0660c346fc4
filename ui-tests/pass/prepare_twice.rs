// `again` starts another pass of the same warm-up.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.again();
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let (_stream, graph) = stream.end()?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
