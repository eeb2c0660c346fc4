//! A kernel writes a buffer that its launch says it only reads.

use graph_capture::{Error, Host, read};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("clear", read(&scores), |scores| scores[0] = 0.0)
}
