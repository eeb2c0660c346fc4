// A number stands for the flag.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let mask = stream.upload(&[true, false].map(u32::from))?;
    assert_eq!(stream.read(&mask)?, [1, 0]);
    Ok(())
}
