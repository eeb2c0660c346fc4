//! What takes many runs to show: a capture in which every step fails in turn, and a thousand captures.

mod faults;
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
