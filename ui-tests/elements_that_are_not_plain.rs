//! A buffer is made of elements of which not every pattern of bytes is a value.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let mask = stream.upload(&[true, false])?;
    println!("{}", mask.len());
    Ok(())
}
