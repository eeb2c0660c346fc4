// One thread reads the result, and all may look at its elements.

use std::thread;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, result) = stream.capture(|commands| commands.download(&scores))?;
    graph.replay(&stream)?;

    let result: &[f64] = graph.read(&result, &stream)?;
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(result[0], 1.0));
        scope.spawn(|| assert_eq!(result[1], 2.0));
    });
    Ok(())
}
