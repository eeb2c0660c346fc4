//! The rules on wgpu, and what only wgpu has: kernels that are shaders, and objects of the program's.

mod lab;
#[path = "../suite/mod.rs"]
mod suite;

use graph_capture::wgpu::Wgpu;

use suite::suite;

suite!(Wgpu);
