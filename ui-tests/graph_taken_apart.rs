//! A graph is looked into, to reach the memory and the executable that it owns.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (_stream, graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    let _owned = &graph.parts;
    Ok(())
}
