//! A kernel borrows a variable of the function that launches it, and a graph would outlive that.

use graph_capture::{Error, Host, read_write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let scale = 3.0;
    stream.launch("scale", read_write(&scores), |scores| {
        scores.iter_mut().for_each(|score| *score *= scale);
    })
}
