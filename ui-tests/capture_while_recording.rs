//! The short form, with several passes of the warm-up, is called inside an open window.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    let (stream, mut graph, ()) = stream.capture_with(2, |commands| commands.fill(&scores, 0.0))?;
    graph.replay(&stream)
}
