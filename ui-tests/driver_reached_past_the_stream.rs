//! The driver stream behind a recording is taken out, to be used past the crate.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let driver = stream.driver()?;
    drop(driver);
    Ok(())
}
