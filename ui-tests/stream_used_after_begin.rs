//! A command is issued on the prepared stream after `begin` took it, to keep it out of the recording.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let prepared = Host::new().stream()?.prepare()?;
    let scores = prepared.upload(&[1.0, 2.0])?;

    let recording = prepared.begin()?;
    prepared.write(&scores, &[3.0, 4.0])?;
    let (_stream, _graph) = recording.end()?;
    Ok(())
}
