// A kernel uses the memory it is given. What comes next is issued behind it.

use graph_capture::{Error, Host, read_write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("clear", read_write(&scores), |scores| scores[0] = 0.0)?;
    stream.fill(&scores.slice(1..)?, 5.0)?;
    assert_eq!(stream.read(&scores)?, [0.0, 5.0]);
    Ok(())
}
