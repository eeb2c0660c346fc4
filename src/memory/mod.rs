//! Device memory: buffers for users, blocks for graphs, and the way back to the driver.

mod block;
mod buffer;

pub use block::{Held, Span};
pub use buffer::Buffer;

pub(crate) use block::{Block, Returns};
pub(crate) use buffer::bytes_of_elements;
