// The stream has the token made, and its transition takes it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let prepared = device.stream()?.prepare()?;
    assert!(device.status().any_active());
    drop(prepared);
    assert!(!device.status().any_active());
    Ok(())
}
