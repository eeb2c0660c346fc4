//! What takes many runs to show: a capture in which every step fails in turn, a thousand captures,
//! and the habits of programs that capture and go wrong.

mod faults;
mod habits;
#[path = "../suite/mod.rs"]
#[allow(unused_imports, unused_macros)] // The rules run elsewhere.
mod suite;
#[path = "../third/mod.rs"]
#[allow(dead_code)] // Its faults serve elsewhere.
mod third;
#[path = "../third/lab.rs"]
mod third_lab;
mod thousand;

use graph_capture::DeviceMemory;

use third::Third;

type Free = Third<false>;

/// The device holds nothing but these bytes, which could not be freed.
#[track_caller]
fn assert_holds_only(memory: DeviceMemory, lost: usize) {
    let DeviceMemory {
        in_use,
        held_by_graphs,
        free,
        waiting,
        allocated,
        ..
    } = memory;
    let figures = [
        in_use,
        held_by_graphs,
        free,
        waiting,
        memory.lost,
        allocated,
    ];
    assert_eq!(figures, [0, 0, 0, 0, lost, lost], "{memory:?}");
}
