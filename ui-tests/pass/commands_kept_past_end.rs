// The commands of the stream that `end` gave back are borrowed anew.

use graph_capture::{Commands, Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording = prepared.begin()?;
    recording.fill(&scores, 0.0)?;

    let (stream, _graph) = recording.end()?;
    let commands: &Commands = &stream;
    commands.fill(&scores, 1.0)?;
    assert_eq!(stream.read(&scores)?, [1.0, 1.0]);
    Ok(())
}
