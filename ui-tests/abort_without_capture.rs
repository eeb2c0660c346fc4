//! A capture is given up where none is under way.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.abort();
    stream.fill(&scores, 0.0)
}
