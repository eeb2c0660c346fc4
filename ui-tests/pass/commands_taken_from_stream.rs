// The commands are borrowed from their stream.

use graph_capture::{Commands, Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let commands: &Commands = &stream;
    let scores = commands.upload(&[1.0, 2.0])?;
    commands.fill(&scores, 0.0)?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
