//! The host as a device: no GPU needed, the calling thread runs the commands in order.
//!
//! It keeps the rules of a real device, so code that captures can be tested anywhere. Kernels are
//! closures:
//!
//! ```
//! use graph_capture::{Error, host::Host, read, write};
//!
//! let device = Host::new();
//! let stream = device.stream()?;
//! let (x, y) = (stream.upload(&[1.0, 2.0])?, stream.alloc::<f32>(2)?);
//! stream.launch("double", (read(&x), write(&y)), |(x, y): (&[f32], &mut [f32])| {
//!     for (y, x) in y.iter_mut().zip(x) {
//!         *y = 2.0 * x;
//!     }
//! })?;
//! assert_eq!(stream.read(&y)?, [2.0, 4.0]);
//! # Ok::<(), Error>(())
//! ```

mod device;
mod faults;
mod launch;
mod memory;
mod transitions;

pub use device::{Driver, Host};
pub use faults::{Builder, Fault, Step, When};
pub use launch::{Access, Accesses};
pub use memory::Memory;
pub use transitions::{Fetched, Program};

/// The commands of a host stream.
pub type Commands = crate::commands::Commands<Host>;
