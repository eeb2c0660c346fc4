//! The token that permits a transition is made as the crate makes it.

use graph_capture::backend::Transition;
use graph_capture::{Backend, Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let driver = device.open()?;

    Host::begin(Transition::new(&driver, &device))
}
