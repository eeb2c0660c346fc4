// The warm-up runs for real, so it can be timed.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    let ((), time) = stream.profile(|commands| commands.fill(&scores, 0.0))?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let (_stream, graph) = stream.end()?;
    println!("{time:?}");
    assert_eq!(graph.len(), 1);
    Ok(())
}
