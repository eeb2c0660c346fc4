// A token serves the backend that it was made for.

use graph_capture::backend::Transition;
use graph_capture::{Backend, Error, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn begin(token: Transition<'_, OwnDevice>) -> Result<(), Error> {
    OwnDevice::begin(token)
}

fn main() -> Result<(), Error> {
    let _ = begin;
    let prepared = Stream::on(&OwnDevice::new())?.prepare()?;
    assert!(prepared.status().any_active());
    Ok(())
}
