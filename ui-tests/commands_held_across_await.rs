//! A spawned task awaits while it borrows the commands of its stream, and may go on on another thread.

use graph_capture::{Commands, Error, Host};

fn main() {
    spawn(serve(Host::new()));
}

async fn serve(device: Host) -> Result<(), Error> {
    let stream = device.stream()?;
    let commands: &Commands = &stream;
    let scores = commands.upload(&[1.0, 2.0])?;
    next_request().await;
    commands.fill(&scores, 0.0)
}

async fn next_request() {}

fn spawn(_task: impl Future<Output = Result<(), Error>> + Send + 'static) {}
