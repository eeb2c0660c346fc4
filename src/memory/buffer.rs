//! The user's handle to device memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use std::panic::Location;
use std::sync::Arc;

use bytemuck::Pod;

use crate::Host;
use crate::backend::Backend;
use crate::error::{At, Error};
use crate::memory::block::{Handle, Span};

/// What a buffer holds: a type of which every pattern of bytes is a value. Every [`bytemuck::Pod`] is
/// one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a buffer: a device may leave any bytes there, and not all are a `{Self}`",
    label = "not plain bytes",
    note = "elements are numbers, arrays of elements, and structs that derive `bytemuck::Pod`"
)]
pub trait Element: Pod {}

// Or the answer would speak of `Pod`, and list its many implementors.
#[diagnostic::do_not_recommend]
impl<T: Pod> Element for T {}

/// Elements of `T` in the memory of a device.
///
/// A clone, and a [`slice`](Self::slice), is another handle to the same memory. Dropping the handles
/// is always safe: a graph that touches the memory keeps it (rule M1). How many holders there are is
/// never told, so that no program can come to depend on it.
pub struct Buffer<T, B: Backend = Host> {
    handle: Arc<Handle<B>>,
    /// In bytes.
    start: usize,
    len: usize,
    element: PhantomData<fn() -> T>,
}

static_assertions::assert_impl_all!(Buffer<f32>: Clone, Send, Sync);

impl<T: Pod, B: Backend> Buffer<T, B> {
    pub(crate) fn new(handle: Arc<Handle<B>>, len: usize) -> Self {
        Self {
            handle,
            start: 0,
            len,
            element: PhantomData,
        }
    }

    /// The elements in `range`, as a buffer: accepted wherever a buffer is (rule M12).
    ///
    /// It is a handle to the same memory and keeps all of it. One command may use slices that do
    /// not overlap; where they do and one of them is written, it is refused as the same buffer
    /// twice is. What is known of memory goes by the whole: the order between streams, and the mark
    /// of a command that failed, which only a write of the whole buffer clears.
    ///
    /// # Errors
    /// [`Error::BadSlice`] if the range does not lie in the buffer, [`Error::ZeroLength`] if it is
    /// empty.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let at = Location::caller();
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(Error::BadSlice {
                start,
                end,
                len: self.len,
                at,
            });
        }
        if start == end {
            return Err(Error::ZeroLength { call: "slice", at });
        }
        Ok(Self {
            handle: Arc::clone(&self.handle),
            // Inside the buffer, whose bytes fit.
            start: self
                .start
                .saturating_add(start.saturating_mul(size_of::<T>())),
            len: end.saturating_sub(start),
            element: PhantomData,
        })
    }

    pub(crate) fn span(&self) -> Span<'_, B> {
        Span::new(
            &self.handle,
            self.start,
            self.len.saturating_mul(size_of::<T>()),
        )
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
            handle: Arc::clone(&self.handle),
            start: self.start,
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
pub(crate) fn bytes_of_elements<T: Pod>(
    call: &'static str,
    len: usize,
    at: At,
) -> Result<usize, Error> {
    let (size, align) = (size_of::<T>(), align_of::<T>());
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
