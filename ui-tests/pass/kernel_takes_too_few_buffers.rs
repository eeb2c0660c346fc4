// One slice for each access, in their order.

use graph_capture::{Error, Host, read, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let (input, scores) = (stream.upload(&[1.0, 2.0])?, stream.alloc::<f64>(2)?);

    stream.launch(
        "double",
        (read(&input), write(&scores)),
        |(input, scores)| {
            for (score, input) in scores.iter_mut().zip(input) {
                *score = 2.0 * input;
            }
        },
    )?;
    assert_eq!(stream.read(&scores)?, [2.0, 4.0]);
    Ok(())
}
