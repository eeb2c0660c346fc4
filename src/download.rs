//! A recorded copy of a buffer, for the host to read after a replay.

use std::fmt;
use std::marker::PhantomData;

/// What [`Commands::download`](crate::Commands::download) returns: the name, in its graph, of a copy
/// that every replay takes. Read it with [`Graph::read`](crate::Graph::read).
pub struct Download<T> {
    id: u64,
    len: usize,
    element: PhantomData<fn() -> T>,
}

static_assertions::assert_impl_all!(Download<f32>: Clone, Send, Sync);

impl<T> Download<T> {
    pub(crate) fn new(id: u64, len: usize) -> Self {
        Self {
            id,
            len,
            element: PhantomData,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The number of elements: at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a buffer is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl<T> Clone for Download<T> {
    fn clone(&self) -> Self {
        Self::new(self.id, self.len)
    }
}

impl<T> fmt::Debug for Download<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Download<{}>({})", std::any::type_name::<T>(), self.len)
    }
}
