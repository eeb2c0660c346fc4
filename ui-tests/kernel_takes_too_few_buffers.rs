//! A kernel takes another number of buffers than its launch gives it.

use graph_capture::{Error, Host, read, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let (input, scores) = (stream.upload(&[1.0, 2.0])?, stream.alloc::<f64>(2)?);

    stream.launch("double", (read(&input), write(&scores)), |(scores,)| {
        scores[0] = 2.0;
    })
}
