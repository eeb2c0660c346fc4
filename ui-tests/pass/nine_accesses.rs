// What belongs together is in one buffer.

use graph_capture::{Error, Host, read, write};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let columns = stream.upload(&[[1.0; 9], [2.0; 9]])?;
    let sums = stream.alloc::<f64>(2)?;

    stream.launch("sum", (read(&columns), write(&sums)), |(columns, sums)| {
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum = column.iter().sum();
        }
    })?;
    assert_eq!(stream.read(&sums)?, [9.0, 18.0]);
    Ok(())
}
