// A function takes streams in any phase, or in those that it names.

use graph_capture::{Backend, Error, Host, MayWait, Phase, PhaseName, Stream};

fn describe<P: Phase, B: Backend>(stream: &Stream<P, B>) -> PhaseName {
    stream.phase()
}

fn settle<P: MayWait, B: Backend>(stream: &Stream<P, B>) -> Result<(), Error> {
    stream.synchronize()
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    settle(&stream)?;
    assert_eq!(describe(&stream), PhaseName::Idle);
    assert_eq!(describe(&stream.prepare()?), PhaseName::WarmUp);
    Ok(())
}
