// Each thread has a stream of its own. Buffers may be shared.

use std::thread;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let device = Host::new();
    let scores = device.stream()?.upload(&[1.0, 2.0])?;
    let (first, second) = (scores.slice(..1)?, scores.slice(1..)?);

    thread::scope(|scope| {
        let first = scope.spawn(|| device.stream()?.fill(&first, 3.0));
        let second = scope.spawn(|| device.stream()?.fill(&second, 4.0));
        first.join().expect("no panic")?;
        second.join().expect("no panic")
    })?;
    assert_eq!(device.stream()?.read(&scores)?, [3.0, 4.0]);
    Ok(())
}
