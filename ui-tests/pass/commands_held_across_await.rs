// The task owns its stream across the await, and borrows the commands anew behind it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    spawn(serve(Host::new()))
}

async fn serve(device: Host) -> Result<(), Error> {
    let stream = device.stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    next_request().await;
    stream.fill(&scores, 0.0)?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}

async fn next_request() {}

fn spawn(task: impl Future<Output = Result<(), Error>> + Send + 'static) -> Result<(), Error> {
    match pin!(task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("no request is waited for"),
    }
}
