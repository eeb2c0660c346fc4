//! Two threads issue commands on one stream, into one window.

use std::thread::{Scope, scope};

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let recording = stream.prepare()?.begin()?;
    scope(|scope| {
        spawn(scope, || recording.fill(&scores, 0.0));
        recording.fill(&scores, 1.0)
    })
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() -> Result<(), Error> + Send + 's) {
    scope.spawn(work);
}
