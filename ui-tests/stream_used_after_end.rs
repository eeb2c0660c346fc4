//! A command is issued on the recording after `end` sealed it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording = prepared.begin()?;
    recording.fill(&scores, 0.0)?;
    let (_stream, _graph) = recording.end()?;
    recording.write(&scores, &[3.0, 4.0])
}
