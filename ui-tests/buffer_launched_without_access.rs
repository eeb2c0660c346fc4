//! A launch is given a buffer, and not how it uses that.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("clear", &scores, |_| {})
}
