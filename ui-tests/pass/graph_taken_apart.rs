// A graph tells what it holds, and keeps it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0_f32, 2.0])?;
    let (_stream, graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    assert_eq!(graph.memory().buffers, 1);
    assert_eq!(graph.memory().device_bytes, 8);
    Ok(())
}
