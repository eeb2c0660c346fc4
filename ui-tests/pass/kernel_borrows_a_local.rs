// `move`: the kernel takes the value along.

use graph_capture::{Error, Host, read_write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let scale = 3.0;
    stream.launch("scale", read_write(&scores), move |scores| {
        scores.iter_mut().for_each(|score| *score *= scale);
    })?;
    assert_eq!(stream.read(&scores)?, [3.0, 6.0]);
    Ok(())
}
