// What a kernel computes goes into a buffer.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let answer = stream.alloc::<u32>(1)?;

    stream.launch("answer", write(&answer), |answer| answer[0] = 42)?;
    assert_eq!(stream.read(&answer)?, [42]);
    Ok(())
}
