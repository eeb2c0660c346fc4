// A buffer holds the bytes themselves.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let names = stream.upload("zero one".as_bytes())?;
    assert_eq!(names.len(), 8);
    Ok(())
}
