//! A kernel is run over device memory past the commands, by the machinery that `launch` uses.

use graph_capture::host::Accesses;
use graph_capture::{Error, Host, write};

fn run<A: Accesses>(accesses: A, kernel: impl for<'v> Fn(A::Views<'v>)) {
    A::run(&accesses.pins(), &kernel, ());
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    run(write(&scores), |scores| scores.fill(0.0));
    Ok(())
}
