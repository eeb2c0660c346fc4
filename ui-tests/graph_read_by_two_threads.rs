//! The result of one graph is read, and so waited for, by two threads at once.

use std::thread::{Scope, scope};

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let stream = device.stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let (_stream, graph, result) = stream.capture(|commands| commands.download(&scores))?;

    scope(|scope| {
        spawn(scope, || Ok(graph.read(&result, &device.stream()?)?[0]));
        spawn(scope, || Ok(graph.read(&result, &device.stream()?)?[1]));
    });
    Ok(())
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() -> Result<f64, Error> + Send + 's) {
    scope.spawn(work);
}
