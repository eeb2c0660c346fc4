// Each thread captures a graph of its own; they may share buffers.

use std::thread;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let scores = device.stream()?.upload(&[1.0, 2.0])?;
    let clear = || {
        let stream = device.stream()?;
        let (stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
        graph.replay(&stream)
    };

    thread::scope(|scope| {
        let (first, second) = (scope.spawn(clear), scope.spawn(clear));
        first.join().expect("no panic")?;
        second.join().expect("no panic")
    })?;
    assert_eq!(device.stream()?.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
