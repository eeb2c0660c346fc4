//! The short form, which prepares by itself, is called on a stream that was prepared by hand.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)
}
