//! A kernel counts its runs in a variable of its own, so that no two replays would do the same.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.alloc::<f32>(2)?;

    let mut runs = 0.0;
    runs += 1.0;
    stream.launch("count", write(&scores), move |scores| {
        runs += 1.0;
        scores.fill(runs);
    })?;
    Ok(())
}
