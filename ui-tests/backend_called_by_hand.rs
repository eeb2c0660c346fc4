//! A backend's `begin` is called by hand, to open the driver's window past the phases.

use graph_capture::{Backend, Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    Host::begin(&stream)
}
