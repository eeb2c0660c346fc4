//! A backend's `begin` passes its token to another backend, to open a window there.

use graph_capture::backend::Transition;
use graph_capture::{Backend, Error, Host};

#[allow(dead_code)]
#[path = "../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn begin_on_the_host(token: Transition<'_, OwnDevice>) -> Result<(), Error> {
    Host::begin(token)
}

fn main() {
    let _ = begin_on_the_host;
}
