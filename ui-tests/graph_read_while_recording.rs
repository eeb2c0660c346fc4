//! What a replay left in a download is read, and so waited for, on a stream whose window is open.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut graph, result) = stream.capture(|commands| commands.download(&scores))?;
    graph.replay(&stream)?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    println!("{:?}", graph.read(&result, &stream)?);
    Ok(())
}
