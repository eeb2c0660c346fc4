//! The commands are lent to another thread, which issues while this one may.

use std::thread::{Scope, scope};

use graph_capture::{Commands, Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let commands: &Commands = &stream;
    scope(|scope| spawn(scope, || commands.fill(&scores, 0.0)));
    Ok(())
}

fn spawn<'s>(scope: &'s Scope<'s, '_>, work: impl FnOnce() -> Result<(), Error> + Send + 's) {
    scope.spawn(work);
}
