// The owner is whoever prepared the capture, from then to its end.

use graph_capture::{Error, Host, StreamId};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let client = StreamId::new(7);
    let stream = stream.prepare_as(client)?;
    assert_eq!(stream.owner(), client);
    Ok(())
}
