//! The commands are carried out of the closure of `capture`, to record when it is over.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let mut kept = None;
    let (_stream, _graph, ()) = stream.capture(|commands| {
        kept = Some(commands);
        commands.fill(&scores, 0.0)
    })?;
    println!("{kept:?}");
    Ok(())
}
