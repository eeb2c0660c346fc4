//! The graph is replayed on the stream under its old name, after `capture` took it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (_, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)
}
