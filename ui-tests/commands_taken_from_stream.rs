//! The commands are moved out of their stream, to outlive its phases.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let commands = *stream;
    let scores = commands.upload(&[1.0, 2.0])?;
    commands.fill(&scores, 0.0)
}
