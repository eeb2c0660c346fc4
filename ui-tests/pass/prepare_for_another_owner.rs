// The first client's capture is given up, and the second client's begins.

use graph_capture::{Error, Host, StreamId};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let stream = stream.prepare_as(StreamId::new(1))?;
    let stream = stream.abort().prepare_as(StreamId::new(2))?;
    assert_eq!(stream.owner(), StreamId::new(2));
    Ok(())
}
