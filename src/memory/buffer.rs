//! The user's handle to device memory.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::error::Error;
use crate::memory::{Block, Span};

/// Elements of `T` in the memory of a device.
///
/// A clone is another handle to the same memory. Dropping the handles is always safe: a graph that
/// touches the memory keeps it (rule M1). How many holders there are is never told, so that no
/// program can come to depend on it.
pub struct Buffer<T, B: Backend = Host> {
    block: Arc<Block<B>>,
    len: usize,
    element: PhantomData<fn() -> T>,
}

static_assertions::assert_impl_all!(Buffer<f32>: Clone, Send, Sync);

impl<T: Pod, B: Backend> Buffer<T, B> {
    pub(crate) fn new(block: Arc<Block<B>>, len: usize) -> Self {
        Self {
            block,
            len,
            element: PhantomData,
        }
    }

    pub(crate) fn span(&self) -> Span<'_, B> {
        Span::new(&self.block, 0, self.block.bytes())
    }
}

impl<T, B: Backend> Buffer<T, B> {
    /// The number of elements: at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T, B: Backend> Clone for Buffer<T, B> {
    fn clone(&self) -> Self {
        Self {
            block: Arc::clone(&self.block),
            len: self.len,
            element: PhantomData,
        }
    }
}

impl<T, B: Backend> fmt::Debug for Buffer<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer<{}>({})", std::any::type_name::<T>(), self.len)
    }
}

/// The bytes of `len` elements of `T`, or why no buffer can hold them.
#[track_caller]
pub(crate) fn bytes_of_elements<T: Pod>(call: &'static str, len: usize) -> Result<usize, Error> {
    let (size, align, at) = (size_of::<T>(), align_of::<T>(), Location::caller());
    if size == 0 || align > 16 {
        return Err(Error::BadElement {
            element: std::any::type_name::<T>(),
            size,
            align,
            at,
        });
    }
    if len == 0 {
        return Err(Error::ZeroLength { call, at });
    }
    match len.checked_mul(size) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(Error::TooLarge { len, size, at }),
    }
}
