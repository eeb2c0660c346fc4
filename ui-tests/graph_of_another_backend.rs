//! A graph that one backend sealed is replayed on a stream of another.

use graph_capture::{Error, Host, Stream};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), Error> {
    let (stream, other) = (Host::new().stream()?, Stream::on(&OtherDevice::new())?);
    let weights = other.upload(&[1.0_f32, 2.0])?;
    let (_other, mut graph, ()) = other.capture(|commands| commands.fill(&weights, 0.0))?;

    graph.replay(&stream)
}
