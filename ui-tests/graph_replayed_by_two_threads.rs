//! One graph is replayed by two threads at once.

use std::thread;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let stream = device.stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (_stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    thread::scope(|scope| {
        scope.spawn(|| graph.replay(&device.stream()?));
        scope.spawn(|| graph.replay(&device.stream()?));
    });
    Ok(())
}
