// What a program knows beside the phase is a value of its own, beside the stream.

use graph_capture::{Error, Host, NoCapture, Stream};

struct Server {
    stream: Stream<NoCapture>,
    is_paused: bool,
}

fn main() -> Result<(), Error> {
    let stream = Host::new().stream()?;
    let server = Server {
        stream,
        is_paused: true,
    };
    server.stream.synchronize()?;
    assert!(server.is_paused);
    Ok(())
}
