// The elements go from one backend to the other by way of the host program.

use graph_capture::{Error, Host, Stream, write};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), Error> {
    let (stream, other) = (Host::new().stream()?, Stream::on(&OtherDevice::new())?);
    let weights = other.upload(&[1.0_f32, 2.0])?;

    let weights = stream.upload(&other.read(&weights)?)?;
    stream.launch("double", write(&weights), |weights| weights[0] = 2.0)?;
    assert_eq!(stream.read(&weights)?, [2.0, 2.0]);
    Ok(())
}
