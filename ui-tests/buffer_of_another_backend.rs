//! A launch on the host is given a buffer that is in the memory of another backend.

use graph_capture::{Error, Host, Stream, read};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), Error> {
    let (stream, other) = (Host::new().stream()?, Stream::on(&OtherDevice::new())?);
    let weights = other.upload(&[1.0_f32, 2.0])?;

    stream.launch("look", read(&weights), |_| {})
}
