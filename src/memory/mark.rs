//! Marks on memory whose bytes a command should have written and did not (M11).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{At, Error};

/// Why memory does not hold what it should.
#[derive(Clone)]
pub(crate) struct Cause {
    /// The command that should have written it.
    pub(crate) name: Arc<str>,
    pub(crate) at: At,
    /// What that command failed with.
    pub(crate) first: Arc<Error>,
}

impl Cause {
    /// The cause of a command that failed with `error`. What failed over marked memory passes the
    /// first cause on.
    pub(crate) fn new(name: impl FnOnce() -> Arc<str>, at: At, error: &Error) -> Self {
        match error {
            Error::Marked { name, at, first } => Self {
                name: Arc::clone(name),
                at,
                first: Arc::clone(first),
            },
            other => Self {
                name: name(),
                at,
                first: Arc::new(other.clone()),
            },
        }
    }
}

/// The mark of one piece of memory: set by what failed, cleared by the next write of all of it.
#[derive(Default)]
pub(crate) struct Mark {
    /// Nearly always false, and then all that is looked at.
    set: AtomicBool,
    cause: Mutex<Option<Cause>>,
}

impl Mark {
    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    /// # Errors
    /// [`Error::Marked`].
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_set() {
            return self.check_set();
        }
        Ok(())
    }

    #[cold]
    fn check_set(&self) -> Result<(), Error> {
        match &*self.cause() {
            None => Ok(()),
            Some(Cause { name, at, first }) => Err(Error::Marked {
                name: Arc::clone(name),
                at,
                first: Arc::clone(first),
            }),
        }
    }

    pub(crate) fn set(&self, cause: &Cause) {
        let mut slot = self.cause();
        *slot = Some(cause.clone());
        self.set.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn clear(&self) {
        if self.is_set() {
            self.clear_set();
        }
    }

    #[cold]
    fn clear_set(&self) {
        let mut slot = self.cause();
        *slot = None;
        self.set.store(false, Ordering::Release);
    }

    fn cause(&self) -> MutexGuard<'_, Option<Cause>> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
