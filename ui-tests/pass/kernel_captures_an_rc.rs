// An `Arc`, or a buffer.

use std::sync::Arc;

use graph_capture::{Error, Host, read_write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let weights = Arc::new([3.0, 4.0]);
    stream.launch("weigh", read_write(&scores), move |scores| {
        scores[0] *= weights[0];
    })?;
    assert_eq!(stream.read(&scores)?, [3.0, 2.0]);
    Ok(())
}
