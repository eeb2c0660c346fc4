//! A result is read into the caller's memory inside the window, before it was computed.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    stream.fill(&scores, 0.0)?;
    let stream = stream.begin()?;
    stream.fill(&scores, 0.0)?;
    let mut result = [0.0; 2];
    stream.read_into(&scores, &mut result)
}
