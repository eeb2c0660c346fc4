//! Hardware graphs on NVIDIA GPUs, through [`cudarc`]: the driver records, this crate keeps
//! the order.
//!
//! ```no_run
//! use graph_capture::cuda::cudarc::{driver::LaunchConfig, nvrtc::Ptx};
//! use graph_capture::cuda::{Cuda, value};
//! use graph_capture::{Error, read, write};
//!
//! # const PTX: &str = "";
//! let device = Cuda::new(0)?;
//! let module = device.context().load_module(Ptx::from_src(PTX)).map_err(Error::step)?;
//! let add = module.load_function("add").map_err(Error::step)?;
//!
//! let stream = device.stream()?;
//! let (x, y) = (stream.upload(&[1.0f32, 2.0])?, stream.alloc::<f32>(2)?);
//! let (stream, mut graph, ()) = stream.capture(|commands| {
//!     let config = LaunchConfig::for_num_elems(2);
//!     // SAFETY: `add` takes x, y, a float and a length, and uses as many elements as that says.
//!     unsafe { commands.launch("add", &add, config, (read(&x), write(&y), value(1.0f32), value(2u32))) }
//! })?;
//! stream.write(&x, &[10.0, 20.0])?;
//! graph.replay(&stream)?;
//! assert_eq!(stream.read(&y)?, [11.0, 21.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Without CUDA
//!
//! The crate builds and starts where there is no CUDA. The driver is looked for by [`Cuda::new`], which
//! answers with [`Error::Unavailable`](crate::Error::Unavailable) and says what is missing. It must
//! be of CUDA 12.0 or later.
//!
//! # Threads
//!
//! [`Cuda`] captures in CUDA's thread-local mode: what other threads do cannot break a window, and a
//! recording does not leave its thread. [`Cuda<Relaxed>`](Relaxed) captures in relaxed mode: a
//! recording may move, and CUDA forbids no call of the thread that might break it; that is then the
//! program's to see to. One context is opened in one of the two modes at a time.
//!
//! # With a context of your own
//!
//! [`Cuda::adopt`] takes a context that the program has, [`Cuda::adopt_stream`] a stream,
//! `Buffer::adopt` a slice, [`read_slice`] one that stays shared, and
//! [`foreign`](Commands::foreign) work that another library submits. The types are those of
//! `cudarc`, re-exported here: its minor version is part of this interface. `cudarc` compiles with one
//! version of CUDA alone, and this crate asks for `cuda-12000`: a program that depends on `cudarc` itself
//! asks for that, or for `cuda-version-from-build-system`, which then has no effect, and for no other.
//!
//! `cudarc`'s safe calls report errors that destructors have left in the context. This backend neither
//! reports nor clears them: a failure of yours is never told as one of a capture.

mod call;
mod context;
mod device;
mod foreign;
mod graph;
mod launch;
mod library;
mod memory;
mod mode;
mod staging;
mod stream;
mod transitions;

pub use ::cudarc;

pub use call::Refusal;
pub use context::Lost;
pub use device::{Cuda, CudaMemory};
pub use graph::{Executable, Recorded};
pub use launch::{Argument, Arguments, ReadSlice, Value, read_slice, value};
pub use memory::Memory;
pub use mode::{Mode, Relaxed, ThreadLocal};
pub use stream::{Driver, Point, Timeline};
pub use transitions::Fetched;

/// The commands of a CUDA stream.
pub type Commands<M = ThreadLocal> = crate::commands::Commands<Cuda<M>>;
