//! A buffer of one type of elements is read as another.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0_f32, 2.0])?;

    let result: Vec<u32> = stream.read(&scores)?;
    println!("{result:?}");
    Ok(())
}
