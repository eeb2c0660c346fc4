//! A capture is ended on a stream on which none was ever begun.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.fill(&scores, 0.0)?;
    let (stream, mut graph) = stream.end()?;
    graph.replay(&stream)
}
