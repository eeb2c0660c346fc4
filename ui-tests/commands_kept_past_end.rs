//! The commands of a recording are kept, and used when it has ended.

use graph_capture::{Commands, Error, Host};

fn main() -> Result<(), Error> {
    let prepared = Host::new().stream()?.prepare()?;
    let scores = prepared.upload(&[1.0, 2.0])?;
    let recording = prepared.begin()?;
    let commands: &Commands = &recording;
    commands.fill(&scores, 0.0)?;

    let (_stream, _graph) = recording.end()?;
    commands.fill(&scores, 1.0)
}
