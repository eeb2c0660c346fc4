// The stream's own `begin`, behind a warm-up, opens the window.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let recording = prepared.begin()?;
    assert!(recording.status().any_recording());
    Ok(())
}
