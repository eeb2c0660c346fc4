//! A closure is bound to a name before it is launched, where the compiler cannot see that it is a kernel.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let clear = |scores| <[f64]>::fill(scores, 0.0);
    stream.launch("clear", write(&scores), clear)
}
