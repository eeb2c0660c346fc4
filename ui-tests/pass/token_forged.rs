// A backend may pass on the token that it was given, to a helper of its own.

use graph_capture::backend::Transition;
use graph_capture::{Error, Stream};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

// Called by the `begin` of a backend of one's own.
#[allow(dead_code)]
fn begin_and_note(permission: Transition<'_, OwnDevice>) -> Result<(), Error> {
    println!("begin");
    <OwnDevice as graph_capture::Backend>::begin(permission)
}

fn main() -> Result<(), Error> {
    let prepared = Stream::on(&OwnDevice::new())?.prepare()?;
    assert!(prepared.status().any_active());
    Ok(())
}
