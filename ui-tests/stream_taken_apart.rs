//! A stream is taken apart, to put its insides into a stream in phase `Recording`.

use graph_capture::{Error, Host, Recording, Stream};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?.prepare()?;

    let recording: Stream<Recording> = Stream { data: stream.data };
    let (_stream, _graph) = recording.end()?;
    Ok(())
}
