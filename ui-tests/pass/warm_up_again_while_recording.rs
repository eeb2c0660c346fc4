// Every pass of the warm-up comes before `begin`.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let mut stream = stream.prepare()?;
    for _pass in 0..3 {
        stream = stream.again();
        stream.fill(&scores, 0.0)?;
    }
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let (_stream, graph) = stream.end()?;
    assert_eq!(graph.len(), 1);
    Ok(())
}
