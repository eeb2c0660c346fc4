//! Device memory: buffers for users, blocks for graphs, and the pool between them and the driver.

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

pub use block::{Held, Span};
pub use buffer::{Buffer, Element};
pub use pool::DeviceMemory;

pub(crate) use block::{Block, Gone, Handle, Touching, covered_bytes};
pub(crate) use buffer::bytes_of_elements;
pub(crate) use lease::Lease;
pub(crate) use mark::Cause;
pub(crate) use page::Page;
#[cfg(feature = "cuda")]
pub(crate) use page::page_bytes;
pub(crate) use pool::Pool;
pub(crate) use primed::Primed;
pub(crate) use returns::Returns;
