//! The error of a refused transition, which gives the stream back.
#![allow(unsafe_code)] // `Sync` for it.

use std::fmt;

use crate::error::Error;

/// A refused transition: the error, and the stream, which is in phase
/// [`NoCapture`](crate::NoCapture) and can be used again.
///
/// `?` turns it into [`Error`], `Box<dyn Error>` and the like, and drops the stream. To keep the
/// stream, match on it and call [`into_parts`](Self::into_parts). A crate with an error type of its
/// own writes one line:
/// `impl<S> From<TransitionError<S>> for Mine { fn from(e: TransitionError<S>) -> Self { Mine::Gpu(e.into()) } }`.
pub struct TransitionError<S> {
    error: Error,
    stream: S,
}

impl<S> TransitionError<S> {
    pub(crate) fn new(error: Error, stream: S) -> Self {
        Self { error, stream }
    }

    /// Why the transition was refused.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The stream, to go on with.
    #[must_use]
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// The error, without the stream.
    #[must_use]
    pub fn into_error(self) -> Error {
        self.error
    }

    /// Both.
    #[must_use]
    pub fn into_parts(self) -> (Error, S) {
        (self.error, self.stream)
    }
}

// SAFETY: nothing gives a `&S`: the stream leaves by value only, and neither `Debug`, `Display` nor
// `source` looks at it. So a shared error shares no stream, and whoever takes the stream out owns
// the error. The other field is `Sync`.
unsafe impl<S> Sync for TransitionError<S> {}
static_assertions::assert_impl_all!(TransitionError<std::cell::Cell<u8>>: Send, Sync);

impl<S> fmt::Debug for TransitionError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransitionError")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<S> fmt::Display for TransitionError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S> std::error::Error for TransitionError<S> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<S> From<TransitionError<S>> for Error {
    fn from(refused: TransitionError<S>) -> Self {
        refused.error
    }
}
