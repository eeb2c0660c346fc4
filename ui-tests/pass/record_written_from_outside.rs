// The record is written by transitions, and read by everyone.

use graph_capture::{Error, Host, StreamId};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let client = StreamId::new(7);
    let prepared = device.stream()?.prepare_as(client)?;
    assert!(device.status().is_capturing(client));
    drop(prepared);
    assert!(!device.status().is_capturing(client));
    Ok(())
}
