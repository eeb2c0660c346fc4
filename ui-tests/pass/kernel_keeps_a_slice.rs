// The elements are copied, or read when the kernel is done.

use std::sync::Mutex;

use graph_capture::{Error, Host, read};

static SEEN: Mutex<Vec<f64>> = Mutex::new(Vec::new());

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("look", read(&scores), |scores| {
        SEEN.lock().expect("no panic").extend(scores);
    })?;
    assert_eq!(*SEEN.lock().expect("no panic"), [1.0, 2.0]);
    Ok(())
}
