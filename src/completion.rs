//! A point in the work of a stream, to ask for or to wait for.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Host;
use crate::backend::Backend;
use crate::error::Error;

/// All that was submitted to a stream before [`Stream::completion`](crate::Stream::completion).
/// May go to another thread.
pub struct Completion<B: Backend = Host> {
    point: Arc<B::Point>,
    /// Of a pool, where a caller may have work under way on other streams.
    others: Vec<Arc<B::Point>>,
}

static_assertions::assert_impl_all!(Completion: Clone, Send, Sync);

impl<B: Backend> Completion<B> {
    pub(crate) fn new(point: Arc<B::Point>) -> Self {
        let others = Vec::new();
        Self { point, others }
    }

    /// And those as well.
    pub(crate) fn and(self, others: Vec<Arc<B::Point>>) -> Self {
        Self { others, ..self }
    }

    fn points(&self) -> impl Iterator<Item = &B::Point> {
        let others = self.others.iter();
        std::iter::once(&self.point)
            .chain(others)
            .map(|point| &**point)
    }

    /// Whether it is done. Does not wait.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    pub fn is_done(&self) -> Result<bool, Error> {
        for point in self.points() {
            if !B::is_reached(point)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until it is done, or for `timeout`, and says whether it is.
    ///
    /// # Errors
    /// What the work failed with, or the driver's refusal.
    pub fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let started = Instant::now();
        for point in self.points() {
            let left = timeout.saturating_sub(started.elapsed());
            if !B::wait(point, Some(left))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<B: Backend> Clone for Completion<B> {
    fn clone(&self) -> Self {
        Self {
            point: Arc::clone(&self.point),
            others: self.others.clone(),
        }
    }
}

impl<B: Backend> fmt::Debug for Completion<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&self.is_done()).finish()
    }
}
