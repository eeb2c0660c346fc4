//! The device record is told of a capture that there is not.

use graph_capture::backend::{Backend, DeviceCaptures};
use graph_capture::{Host, StreamId};

fn main() {
    let device = Host::new();
    let captures: &DeviceCaptures<Host> = device.captures();
    captures.prepare(StreamId::new(7));
}
