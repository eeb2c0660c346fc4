// A command of a backend's own gets the driver stream, for as long as that command takes.

use graph_capture::{Error, Stream, write};

#[allow(dead_code)]
#[path = "../../tests/third/mod.rs"]
mod third;

type OwnDevice = third::Third;

fn main() -> Result<(), Error> {
    let stream = Stream::on(&OwnDevice::new())?;
    let scores = stream.alloc::<f32>(2)?;

    let mut has_run = false;
    stream.custom("look", &[], write(&scores), |token, _spans| {
        let _driver: &third::Driver = token.driver();
        has_run = true;
        Ok(())
    })?;
    assert!(has_run);
    Ok(())
}
