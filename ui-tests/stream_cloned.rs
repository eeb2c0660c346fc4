//! A second handle to a stream is wanted, so that one can record while the other runs.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let running = stream.clone();

    let recording = stream.prepare()?.begin()?;
    running.synchronize()?;
    let (_stream, _graph) = recording.end()?;
    Ok(())
}
