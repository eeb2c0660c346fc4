//! Device memory: buffers for users, blocks for graphs, and the pool between them and the driver.

#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod adopt;
mod block;
mod buffer;
mod cover;
mod lease;
mod mark;
mod page;
mod pool;
mod primed;
mod returns;
mod shelf;

#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub use adopt::Adopt;
pub use block::{Held, Span};
pub use buffer::{Buffer, Element};
pub use pool::DeviceMemory;

pub(crate) use block::{Block, Gone, Handle, Touching, covered_bytes};
pub(crate) use buffer::bytes_of_elements;
pub(crate) use lease::Lease;
pub(crate) use mark::Cause;
pub(crate) use page::{ALIGN, Page};
pub(crate) use pool::Pool;
pub(crate) use primed::Primed;
pub(crate) use returns::Returns;
