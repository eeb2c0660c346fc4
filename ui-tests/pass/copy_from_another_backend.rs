// A read waits for the one backend, and a write gives the elements to the other.

use graph_capture::{Error, Host, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), Error> {
    let (stream, other) = (Host::new().stream()?, Stream::on(&OtherDevice::new())?);
    let weights = other.upload(&[1.0_f32, 2.0])?;
    let scores = stream.alloc::<f32>(2)?;

    stream.write(&scores, &other.read(&weights)?)?;
    assert_eq!(stream.read(&scores)?, [1.0, 2.0]);
    Ok(())
}
