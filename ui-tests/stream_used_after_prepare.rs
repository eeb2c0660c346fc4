//! The stream is used under its old name after `prepare` took it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    drop(prepared);
    Ok(())
}
