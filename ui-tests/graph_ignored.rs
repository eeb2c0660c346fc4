//! The graph that a function returns is ignored, as if to record were to run.

#![deny(unused_must_use)]

use graph_capture::{Buffer, Error, Graph, Host};

fn record(device: &Host, scores: &Buffer<f32>) -> Result<Graph, Error> {
    let stream = device.stream()?;
    let (_stream, graph, ()) = stream.capture(|commands| commands.fill(scores, 0.0))?;
    Ok(graph)
}

fn main() -> Result<(), Error> {
    let device = Host::new();
    let scores = device.stream()?.alloc(2)?;

    record(&device, &scores)?;
    Ok(())
}
