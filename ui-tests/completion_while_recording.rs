//! A point to wait for is marked inside the window.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let filled = stream.completion()?;
    println!("{}", filled.is_done()?);
    Ok(())
}
