//! Memory that a program has already.

use std::panic::Location;

use bytemuck::Pod;

use crate::backend::Backend;
use crate::error::{At, Error};
use crate::memory::Buffer;

/// Memory of a program's that a [`Buffer`] can be made of: `wgpu::Buffer` and `cudarc`'s `CudaSlice`,
/// each for its backend. One trait for all, so that no backend's feature makes another's code ambiguous.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory that a buffer of `{T}` on `{B}` can be made of",
    label = "cannot be adopted",
    note = "on wgpu adopt a `wgpu::Buffer`, on CUDA a `CudaSlice` of the elements; the host has none"
)]
pub trait Adopt<T, B: Backend>: Sized {
    #[doc(hidden)]
    fn adopt(self, device: &B, at: At) -> Result<Buffer<T, B>, Error>;
}

impl<T: Pod, B: Backend> Buffer<T, B> {
    /// A buffer over memory that the program has already.
    ///
    /// On wgpu it stays the program's as well. Adopted twice, it is the same memory: in marks, in the order
    /// of work, and where two accesses overlap. It is never lent to others, and a graph that touches it
    /// keeps it alive (rule M1); but the program can write it behind the crate's back, and destroy it:
    /// then the commands that use it fail, with wgpu's error. What a command does with it asks for the usage
    /// that wgpu names: `STORAGE` for a launch, `COPY_DST` to be written, `COPY_SRC` to be read or copied,
    /// `INDIRECT` for counts.
    ///
    /// On CUDA it is taken over, with what it holds, and goes back to the stream that it was allocated on when
    /// no buffer and no graph uses it any more. Waits for what was submitted with the slice before, by its
    /// events where `cudarc` tracks them, and by its stream in any case. From here on the order is kept by
    /// this crate alone.
    ///
    /// # Errors
    /// [`Error::BadMemory`]: on wgpu if its bytes are no whole number of `T`, or no multiple of four; on CUDA if
    /// it is of another context, or its stream is in a capture. [`Error::BadElement`], [`Error::ZeroLength`];
    /// or the driver's.
    #[track_caller]
    pub fn adopt(device: &B, memory: impl Adopt<T, B>) -> Result<Self, Error> {
        memory.adopt(device, Location::caller())
    }
}
