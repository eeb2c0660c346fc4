//! A stream is opened in phase `Recording`, with no warm-up before it.

use graph_capture::{Error, Host, Recording, Stream};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let recording = Stream::<Recording>::on(&device)?;
    let (_stream, _graph) = recording.end()?;
    Ok(())
}
