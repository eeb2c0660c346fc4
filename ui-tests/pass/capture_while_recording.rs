// The window closes first; or the same function is called in both captures.

use graph_capture::{Commands, Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let clear = |commands: &Commands| commands.fill(&scores, 0.0);

    let stream = stream.prepare()?;
    clear(&stream)?;
    let stream = stream.begin()?;
    clear(&stream)?;
    let (stream, _first) = stream.end()?;
    let (_stream, second, ()) = stream.capture_with(2, clear)?;
    assert_eq!(second.len(), 1);
    Ok(())
}
