//! A graph is replayed on a stream whose window is open.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut clear_scores, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    let stream = stream.prepare()?;
    clear_scores.replay(&stream)?;
    let stream = stream.begin()?;
    clear_scores.replay(&stream)?;
    let (_stream, _graph) = stream.end()?;
    Ok(())
}
