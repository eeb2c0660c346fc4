//! A command of one's own is issued on the host backend, which has launches and no others.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.custom("clear", &[], write(&scores), |_, _| Ok(()))
}
