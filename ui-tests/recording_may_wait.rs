//! A recording is declared to be a phase in which a stream may wait.

use graph_capture::{MayWait, Recording};

impl MayWait for Recording {}

fn main() {}
