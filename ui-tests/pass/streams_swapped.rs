// Whole streams of one phase may change places: the phase is part of what moves.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (mut idle, mut busy) = (device.stream()?, device.stream()?);
    let scores = busy.upload(&[1.0, 2.0])?;

    std::mem::swap(&mut idle, &mut busy);
    let recording = busy.prepare()?;
    recording.fill(&scores, 0.0)?;
    idle.synchronize()?;
    assert_eq!(idle.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
