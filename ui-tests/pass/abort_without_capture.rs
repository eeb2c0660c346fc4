// `abort` gives up a capture that was prepared, and goes on with the stream.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let stream = stream.prepare()?;
    assert!(stream.status().any_active());
    let stream = stream.abort();
    assert!(!stream.status().any_active());
    stream.fill(&scores, 0.0)
}
