// Accesses are made by `read`, `write` and `read_write`, and say which buffer.

use graph_capture::access::Accesses;
use graph_capture::backend::OpenCalls;
use graph_capture::{Buffer, Error, Stream, read, write};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn uses<'b, B: OpenCalls>(x: &'b Buffer<f32, B>, y: &'b Buffer<f32, B>) -> impl Accesses<B> + 'b {
    (read(x), write(y))
}

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let (x, y) = (stream.alloc(2)?, stream.alloc(2)?);
    stream.custom("look", &[], uses(&x, &y), |_token, spans| {
        assert_eq!(spans.len(), 2);
        Ok(())
    })
}
