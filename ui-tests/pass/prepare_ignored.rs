// The stream in its next phase is what to go on with.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let stream = stream.prepare()?;
    assert!(stream.status().any_active());
    Ok(())
}
