// `MayWait` asks for the phases in which a stream may.

use graph_capture::{Error, Host, MayWait, Stream};

fn settle<P: MayWait>(stream: &Stream<P>) -> Result<(), Error> {
    stream.synchronize()
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    settle(&stream)?;
    let stream = stream.prepare()?;
    settle(&stream)?;
    assert!(!stream.status().any_recording());
    Ok(())
}
