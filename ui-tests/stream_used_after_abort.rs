//! A capture that was given up is ended all the same.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let prepared = Host::new().stream()?.prepare()?;
    let scores = prepared.upload(&[1.0, 2.0])?;

    let recording = prepared.begin()?;
    recording.fill(&scores, 0.0)?;
    let _stream = recording.abort();
    let (_stream, _graph) = recording.end()?;
    Ok(())
}
