//! A download of one type of elements is read as another.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0_f32, 2.0])?;
    let (stream, mut graph, download) = stream.capture(|commands| commands.download(&scores))?;

    graph.replay(&stream)?;
    let result: &[u32] = graph.read(&download, &stream)?;
    println!("{result:?}");
    Ok(())
}
