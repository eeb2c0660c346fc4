//! A launch uses nine buffers; eight are the most.

use graph_capture::{Error, Host, read};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let x = stream.upload(&[1.0, 2.0])?;

    let nine = (
        read(&x),
        read(&x),
        read(&x),
        read(&x),
        read(&x),
        read(&x),
        read(&x),
        read(&x),
        read(&x),
    );
    stream.launch("sum", nine, |_| {})
}
