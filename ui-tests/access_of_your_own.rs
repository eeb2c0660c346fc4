//! A type declares itself an access to memory, of which the crate would not see what it uses.

use graph_capture::Host;
use graph_capture::access::Access;

struct Everything;

impl Access<Host> for Everything {}

fn main() {}
