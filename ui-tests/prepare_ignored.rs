//! The stream that `prepare` gives back is ignored, so the capture ends where it started.

#![deny(unused_must_use)]

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    stream.prepare()?;
    Ok(())
}
