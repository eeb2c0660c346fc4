//! The warm-up is taken for the recording: the capture is ended before its window was opened.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let (stream, mut graph) = stream.end()?;
    graph.replay(&stream)
}
