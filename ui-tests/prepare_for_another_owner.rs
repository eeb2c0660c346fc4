//! A capture that one client prepared is prepared for another client, to hand it over.

use graph_capture::{Error, Host, StreamId};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;

    let stream = stream.prepare_as(StreamId::new(1))?;
    let stream = stream.prepare_as(StreamId::new(2))?;
    println!("{}", stream.owner());
    Ok(())
}
