// A function that waits asks for a phase that may.

use graph_capture::{Backend, Buffer, Error, Host, MayWait, Stream};

fn first<P: MayWait, B: Backend>(stream: &Stream<P, B>, of: &Buffer<f32, B>) -> Result<f32, Error> {
    Ok(stream.read(of)?[0])
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;
    assert_eq!(first(&stream, &scores)?, 1.0);
    Ok(())
}
