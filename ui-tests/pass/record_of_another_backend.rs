// Each device has a record of its own backend's.

use graph_capture::backend::DeviceCaptures;

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() -> Result<(), graph_capture::Error> {
    let captures: DeviceCaptures<OtherDevice> = DeviceCaptures::new();
    assert!(!captures.status().any_active());
    Ok(())
}
