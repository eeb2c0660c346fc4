//! A buffer is copied from the memory of another backend as if one device could reach both.

use graph_capture::{Error, Host, Stream};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), Error> {
    let (stream, other) = (Host::new().stream()?, Stream::on(&OtherDevice::new())?);
    let weights = other.upload(&[1.0_f32, 2.0])?;
    let scores = stream.alloc::<f32>(2)?;

    stream.copy(&weights, &scores)
}
