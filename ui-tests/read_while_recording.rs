//! A result is read inside the window, before it was computed.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let result = stream.read(&scores)?;
    println!("{result:?}");
    Ok(())
}
