//! The rules on wgpu, and what only wgpu has: kernels that are shaders, and objects of the program's.

mod adopted;
mod bytes;
mod faults;
mod kernels;
mod lab;
#[path = "../suite/mod.rs"]
mod suite;

use std::time::Duration;

use graph_capture::wgpu::{Commands, Kernel, Wgpu, wgpu};
use graph_capture::{
    Buffer, Error, Graph, NodeKind, PhaseName, Recording, Stream, read, read_write, write,
};

use lab::{ADD, KERNELS, limited, noop, raw_device};
use suite::{Bench, Lab, assert_idle, bench, suite, told};

suite!(Wgpu);

static_assertions::assert_impl_all!(Stream<Recording, Wgpu>: Send);
static_assertions::assert_impl_all!(Graph<Wgpu>: Send);
static_assertions::assert_impl_all!(Buffer<f32, Wgpu>: Send, Sync);

/// Tests that need an adapter, which say so where there is none.
macro_rules! on_an_adapter {
    ($($(#[$doc:meta])* fn $test:ident() $body:block)+) => {
        $(
            $(#[$doc])*
            #[test]
            fn $test() {
                if <Wgpu as Lab>::is_there() $body
            }
        )+
    };
}
use on_an_adapter;
