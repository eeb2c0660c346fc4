// Two graphs are replayed one after the other.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (stream, mut clear_scores, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    let best = scores.slice(1..2)?;
    let (stream, mut set_best, ()) = stream.capture(|commands| commands.write(&best, &[9.0]))?;
    clear_scores.replay(&stream)?;
    set_best.replay(&stream)?;
    assert_eq!(stream.read(&scores)?, [0.0, 9.0]);
    Ok(())
}
