//! The token of a custom command is kept, to reach the driver stream when the command is over.

use graph_capture::{Error, Stream, write};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let scores = stream.alloc::<f32>(2)?;

    let mut kept = None;
    stream.custom("look", &[], write(&scores), |token, _spans| {
        kept = Some(token);
        Ok(())
    })?;
    drop(kept);
    Ok(())
}
