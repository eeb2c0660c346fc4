// What changes from replay to replay is in a buffer.

use graph_capture::{Error, Host, read_write, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let (scores, runs) = (stream.alloc::<f32>(2)?, stream.alloc::<f32>(1)?);

    for _run in 0..3 {
        stream.launch(
            "count",
            (write(&scores), read_write(&runs)),
            |(scores, runs)| {
                runs[0] += 1.0;
                scores.fill(runs[0]);
            },
        )?;
    }
    assert_eq!(stream.read(&scores)?, [3.0, 3.0]);
    Ok(())
}
