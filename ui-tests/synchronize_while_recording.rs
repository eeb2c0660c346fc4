//! The stream is waited for inside the window, where nothing runs.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    stream.synchronize()?;
    let (_stream, _graph) = stream.end()?;
    Ok(())
}
