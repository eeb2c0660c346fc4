//! A buffer is made of strings, whose bytes are elsewhere.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let names = stream.alloc::<String>(2)?;
    println!("{names:?}");
    Ok(())
}
