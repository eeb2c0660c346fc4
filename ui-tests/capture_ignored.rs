//! What `capture` gives back is ignored: the stream, and the graph, which then never runs.

#![deny(unused_must_use)]

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.capture(|commands| commands.fill(&scores, 0.0))?;
    Ok(())
}
