// The launch says that it writes.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("clear", write(&scores), |scores| scores[0] = 0.0)?;
    assert_eq!(stream.read(&scores)?, [0.0, 2.0]);
    Ok(())
}
