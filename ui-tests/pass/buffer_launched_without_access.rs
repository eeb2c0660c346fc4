// `read`, `write` or `read_write`.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("clear", write(&scores), |scores| scores.fill(0.0))?;
    assert_eq!(stream.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
