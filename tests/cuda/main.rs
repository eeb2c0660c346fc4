//! The rules on CUDA, and what only that has. On a simulated driver, unless `GRAPH_CAPTURE_REQUIRE=cuda`.

mod adopting;
mod calls;
mod driver;
mod faults;
mod lab;
mod pool;
mod slices;
#[path = "../suite/mod.rs"]
mod suite;
mod windows;

use graph_capture::cuda::{Cuda, Relaxed};
use graph_capture::{NoCapture, Prepared, Recording, Stream};
use static_assertions::{assert_impl_all, assert_not_impl_any};

use suite::suite;

mod thread_local {
    use super::*;
    suite!(Cuda);
}

mod relaxed {
    use super::*;
    suite!(Cuda<Relaxed>);
}

assert_impl_all!(Stream<Recording, Cuda<Relaxed>>: Send);
assert_impl_all!(Stream<Prepared, Cuda>: Send);
assert_impl_all!(Stream<NoCapture, Cuda>: Send);
assert_not_impl_any!(Stream<Recording, Cuda>: Send);
