// The stream goes on under the name that `prepare` gave it.

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    let prepared = stream.prepare()?;
    prepared.fill(&scores, 0.0)?;
    assert_eq!(prepared.read(&scores)?, [0.0, 0.0]);
    Ok(())
}
