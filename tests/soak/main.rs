//! What takes many runs to show: a capture in which every step fails in turn, and a thousand captures.

#[cfg(feature = "cuda")]
#[path = "../cuda/driver.rs"]
mod driver;
mod faults;
#[cfg(feature = "cuda")]
#[path = "../cuda/lab.rs"]
mod lab;
#[path = "../suite/mod.rs"]
#[allow(unused_imports, unused_macros)] // The rules run elsewhere.
mod suite;
#[path = "../third/mod.rs"]
#[allow(dead_code)] // Its faults serve elsewhere.
mod third;
#[path = "../third/lab.rs"]
mod third_lab;
mod thousand;

use third::Third;

type Free = Third<false>;
