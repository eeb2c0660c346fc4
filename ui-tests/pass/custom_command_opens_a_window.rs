// A command of a backend's own runs one command, or records it.

use graph_capture::{Error, Stream, write};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let scores = stream.alloc::<f32>(2)?;

    stream.custom("nothing", &[], write(&scores), |token, spans| {
        assert!(!token.is_recording());
        assert_eq!(spans.len(), 1);
        Ok(())
    })
}
