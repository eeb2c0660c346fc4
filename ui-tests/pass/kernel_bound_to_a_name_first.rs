// The closure is written in the call, or its parameter's type is, or the kernel is a function.

use graph_capture::{Error, Host, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let scores = stream.upload(&[1.0, 2.0])?;

    stream.launch("in the call", write(&scores), |scores| scores.fill(1.0))?;
    let clear = |scores: &mut [f64]| scores.fill(0.0);
    stream.launch("with a type", write(&scores), clear)?;
    stream.launch("a function", write(&scores), count)?;
    assert_eq!(stream.read(&scores)?, [1.0, 2.0]);
    Ok(())
}

fn count(scores: &mut [f64]) {
    (1..)
        .zip(scores)
        .for_each(|(n, score)| *score = f64::from(n));
}
