//! A stream that is prepared already is prepared again, to warm up twice.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    drop(stream);
    Ok(())
}
