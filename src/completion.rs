//! A point in the work of a stream, to ask for or to wait for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Host;
use crate::backend::Backend;
use crate::error::Error;

/// All that was submitted to a stream before [`Stream::completion`](crate::Stream::completion).
/// May go to another thread.
pub struct Completion<B: Backend = Host>(Arc<B::Point>);

static_assertions::assert_impl_all!(Completion: Clone, Send, Sync);

impl<B: Backend> Completion<B> {
    pub(crate) fn new(point: Arc<B::Point>) -> Self {
        Self(point)
    }

    /// Whether it is done. Does not wait.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    pub fn is_done(&self) -> Result<bool, Error> {
        B::is_reached(&self.0)
    }

    /// Waits until it is done, or for `timeout`, and says whether it is.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        B::wait(&self.0, Some(timeout))
    }
}

impl<B: Backend> Clone for Completion<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B: Backend> fmt::Debug for Completion<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&self.is_done()).finish()
    }
}
