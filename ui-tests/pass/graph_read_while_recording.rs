// The download is read on another stream of the device while this one records.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (stream, reader) = (device.stream()?, device.stream()?);
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, result) = stream.capture(|commands| commands.download(&scores))?;
    graph.replay(&stream)?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    assert_eq!(graph.read(&result, &reader)?, [1.0, 2.0]);
    drop(stream);
    Ok(())
}
