// A program that holds streams in several phases has an enum of its own for them.

use graph_capture::{Error, Host, NoCapture, Recording, Stream};

enum Slot {
    Idle(Stream<NoCapture>),
    Recording(Stream<Recording>),
}

fn give_up(slot: Slot) -> Stream<NoCapture> {
    match slot {
        Slot::Idle(stream) => stream,
        Slot::Recording(stream) => stream.abort(),
    }
}

fn main() -> Result<(), Error> {
    let stream = give_up(Slot::Idle(Host::new().stream()?));
    let scores = stream.upload(&[1.0, 2.0])?;
    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    let stream = give_up(Slot::Recording(prepared.begin()?));
    assert!(!stream.status().any_active());
    Ok(())
}
