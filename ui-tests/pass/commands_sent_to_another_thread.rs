// The stream itself moves, and may come back.

use std::thread;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let filler = thread::spawn(move || {
        stream.fill(&scores, 0.0)?;
        Ok::<_, Error>((stream, scores))
    });
    let (stream, scores) = filler.join().expect("no panic")?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
