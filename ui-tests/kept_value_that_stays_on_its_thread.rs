//! A graph, which may be dropped on any thread, is given a value to keep that must stay on its own.

use std::rc::Rc;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let labels = Rc::new(["zero", "one"]);

    stream.keep(Rc::clone(&labels));
    println!("{labels:?}");
    Ok(())
}
