// What a command needs later is copied, or held: `hold` keeps the memory.

use graph_capture::{Error, Stream, write};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let scores = stream.alloc::<f32>(2)?;

    let mut held = Vec::new();
    stream.custom("look", &[], write(&scores), |_token, spans| {
        held.extend(spans.iter().map(|span| span.hold()));
        Ok(())
    })?;
    assert_eq!(held.len(), 1);
    Ok(())
}
