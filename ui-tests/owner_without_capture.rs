//! A stream is asked who owns its capture, and has none.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let owner = stream.owner();
    println!("the capture of {owner}");
    Ok(())
}
