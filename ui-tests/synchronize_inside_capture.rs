//! The captured function waits for the device.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (_stream, _graph, ()) = stream.capture(|commands| {
        commands.fill(&scores, 0.0)?;
        commands.synchronize()
    })?;
    Ok(())
}
