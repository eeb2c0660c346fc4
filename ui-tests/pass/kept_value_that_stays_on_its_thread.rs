// An `Arc` may be dropped anywhere.

use std::sync::Arc;

use graph_capture::{Error, Host};

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let labels = Arc::new(["zero", "one"]);

    stream.keep(Arc::clone(&labels));
    assert_eq!(Arc::strong_count(&labels), 2);
    stream.synchronize()?;
    assert_eq!(Arc::strong_count(&labels), 1);
    Ok(())
}
