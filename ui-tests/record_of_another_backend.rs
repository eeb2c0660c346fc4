//! A backend is given the record of another, so that its captures would hold up that one's memory.

use graph_capture::Host;
use graph_capture::backend::{Backend, DeviceCaptures};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OtherDevice = third::Third;

fn main() {
    let device = Host::new();
    let captures: DeviceCaptures<OtherDevice> = device.captures().clone();
    println!("{captures:?}");
}
