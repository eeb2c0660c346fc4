//! A launch uses no memory, so nothing could come of it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    stream.launch("nothing", (), |()| {})
}
