//! A crate declares that recordings of its backend may change their thread, and passes by the promise
//! that this takes.

use graph_capture::{AnyThread, Recording};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type PinnedDevice = third::Third<true>;

impl AnyThread<PinnedDevice> for Recording {}

fn main() {}
