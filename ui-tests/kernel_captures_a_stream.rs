//! A kernel takes its stream along, to issue commands while it runs.

use graph_capture::{Error, Host, read};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let (stream, other) = (device.stream()?, device.stream()?);
    let scores = stream.upload(&[1.0, 2.0])?;

    let input = scores.clone();
    stream.launch("clear", read(&scores), move |_scores| {
        other.fill(&input, 0.0).ok();
    })
}
