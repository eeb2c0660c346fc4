//! A kernel takes an `Rc` along, but the graph that will own it may be replayed on any thread.

use std::rc::Rc;

use graph_capture::{Error, Host, read_write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let weights = Rc::new([3.0, 4.0]);
    stream.launch("weigh", read_write(&scores), move |scores| {
        scores[0] *= weights[0];
    })
}
