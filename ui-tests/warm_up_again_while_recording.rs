//! Another pass of the warm-up is asked for when the window is open already.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    let stream = stream.again();
    stream.fill(&scores, 0.0)?;
    drop(stream);
    Ok(())
}
