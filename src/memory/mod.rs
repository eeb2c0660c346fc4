//! Device memory: buffers for users, blocks for graphs, and the pool between them and the driver.

mod block;
mod buffer;
mod mark;
mod page;
mod pool;
mod returns;

pub use block::{Held, Span};
pub use buffer::{Buffer, Element};
pub use pool::DeviceMemory;

pub(crate) use block::{Block, Handle, Touching};
pub(crate) use buffer::bytes_of_elements;
pub(crate) use mark::Cause;
pub(crate) use page::{Page, page_bytes};
pub(crate) use pool::{Pool, Primed};
pub(crate) use returns::Returns;
