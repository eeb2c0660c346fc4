// The first capture ends; the stream that comes back is prepared for the second.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let (stream, zeroes, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;
    let (_stream, ones, ()) = stream.capture(|commands| commands.fill(&scores, 1.0))?;
    assert_eq!((zeroes.len(), ones.len()), (1, 1));
    Ok(())
}
