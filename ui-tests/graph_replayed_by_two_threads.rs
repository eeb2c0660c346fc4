//! One graph is replayed by two threads at once.

use std::thread::{Scope, scope};

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let stream = device.stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (_stream, mut graph, ()) = stream.capture(|commands| commands.fill(&scores, 0.0))?;

    scope(|scope| {
        spawn(scope, || graph.replay(&device.stream()?));
        spawn(scope, || graph.replay(&device.stream()?));
    });
    Ok(())
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() -> Result<(), Error> + Send + 's) {
    scope.spawn(work);
}
