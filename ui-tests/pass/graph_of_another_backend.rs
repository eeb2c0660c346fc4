// A function that is generic over the backend captures on both.

use graph_capture::{Backend, Error, Host, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn clear<B: Backend>(device: &B) -> Result<Vec<f32>, Error> {
    let stream = Stream::on(device)?;
    let weights = stream.upload(&[1.0_f32, 2.0])?;
    let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&weights, 0.0))?;
    graph.replay(&stream)?;
    stream.read(&weights)
}

fn main() -> Result<(), Error> {
    assert_eq!(clear(&Host::new())?, [0.0, 0.0]);
    assert_eq!(clear(&OtherDevice::new())?, [0.0, 0.0]);
    Ok(())
}
