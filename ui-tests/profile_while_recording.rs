//! Work is timed inside the window, where it does not run.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    let ((), time) = stream.profile(|commands| commands.fill(&scores, 0.0))?;
    println!("{time:?}");
    Ok(())
}
