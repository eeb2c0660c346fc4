//! The token that permits a transition is forged, to open the driver's window past the phases.

use graph_capture::backend::Transition;
use graph_capture::{Backend, Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let driver = device.open()?;

    Host::begin(Transition {
        driver: &driver,
        device: &device,
    })
}
