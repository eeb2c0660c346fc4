//! A stream is given a phase that there is not.

use graph_capture::Stream;

enum Paused {}

struct Server {
    stream: Stream<Paused>,
}

fn main() {}
