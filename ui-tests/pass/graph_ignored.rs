// The graph is replayed, on any stream of the device.

use graph_capture::{Buffer, Error, Graph, Host};

fn record(device: &Host, scores: &Buffer<f32>) -> Result<Graph, Error> {
    let stream = device.stream()?;
    let (_stream, graph, ()) = stream.capture(|commands| commands.fill(scores, 1.0))?;
    Ok(graph)
}

fn main() -> Result<(), Error> {
    let device = Host::new();
    let stream = device.stream()?;
    let scores = stream.alloc(2)?;

    let mut graph = record(&device, &scores)?;
    graph.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [1.0, 1.0]);
    Ok(())
}
