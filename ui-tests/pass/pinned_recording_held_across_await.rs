// The window opens and closes in a function that awaits nothing.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use graph_capture::{Buffer, Error, Graph, Prepared, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type PinnedDevice = third::Third<true>;

fn main() -> Result<(), Error> {
    spawn(serve(PinnedDevice::new()))
}

async fn serve(device: PinnedDevice) -> Result<(), Error> {
    let stream = Stream::on(&device)?;
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    next_request().await;
    prepared.fill(&scores, 0.0)?;
    let graph = record(prepared, &scores)?;
    next_request().await;
    assert_eq!(graph.len(), 1);
    Ok(())
}

fn record(
    prepared: Stream<Prepared, PinnedDevice>,
    scores: &Buffer<f64, PinnedDevice>,
) -> Result<Graph<PinnedDevice>, Error> {
    let recording = prepared.begin()?;
    recording.fill(scores, 0.0)?;
    let (_stream, graph) = recording.end()?;
    Ok(graph)
}

async fn next_request() {}

fn spawn(task: impl Future<Output = Result<(), Error>> + Send + 'static) -> Result<(), Error> {
    match pin!(task).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("no request is waited for"),
    }
}
