//! A command of a backend's own calls the backend's `begin` with the token that it was given.

use graph_capture::{Backend, Error, Stream, write};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let scores = stream.alloc::<f32>(2)?;

    stream.custom("begin", &[], write(&scores), |token, _spans| {
        OwnDevice::begin(token)
    })
}
