// What the recording made is carried out: a buffer of the graph's own.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, mut graph, copy) = stream.capture(|commands| {
        let copy = commands.alloc::<f64>(2)?;
        commands.copy(&scores, &copy)?;
        Ok(copy)
    })?;
    graph.replay(&stream)?;
    assert_eq!(stream.read(&copy)?, [1.0, 2.0]);
    Ok(())
}
