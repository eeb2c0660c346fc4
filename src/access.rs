//! What a launch says it reads and writes.

use bytemuck::Pod;

use crate::backend::Backend;
use crate::memory::{Buffer, Span};

/// How a command uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    /// Written, whatever it held.
    Write,
    ReadWrite,
}

impl Mode {
    pub(crate) fn reads(self) -> bool {
        self != Self::Write
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Read
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadWrite => "read_write",
        }
    }

    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::ReadWrite => "reads and writes",
        }
    }
}

/// An access that only reads. Made by [`read`].
pub struct Read<'a, T, B: Backend>(pub(crate) &'a Buffer<T, B>);

/// An access that only writes. Made by [`write()`].
pub struct Write<'a, T, B: Backend>(pub(crate) &'a Buffer<T, B>);

/// An access that reads and writes. Made by [`read_write`].
pub struct ReadWrite<'a, T, B: Backend>(pub(crate) &'a Buffer<T, B>);

/// The launch reads `buffer`.
#[must_use]
pub fn read<T: Pod, B: Backend>(buffer: &Buffer<T, B>) -> Read<'_, T, B> {
    Read(buffer)
}

/// The launch writes `buffer`. A kernel may leave parts unwritten; they keep what they held.
#[must_use]
pub fn write<T: Pod, B: Backend>(buffer: &Buffer<T, B>) -> Write<'_, T, B> {
    Write(buffer)
}

/// The launch reads and writes `buffer`.
#[must_use]
pub fn read_write<T: Pod, B: Backend>(buffer: &Buffer<T, B>) -> ReadWrite<'_, T, B> {
    ReadWrite(buffer)
}

/// One access as the crate sees it: how, and which bytes.
pub struct Use<'a, B: Backend> {
    pub(crate) mode: Mode,
    pub(crate) span: Span<'a, B>,
}

impl<'a, B: Backend> Use<'a, B> {
    pub(crate) fn read(span: Span<'a, B>) -> Self {
        Self {
            mode: Mode::Read,
            span,
        }
    }

    pub(crate) fn write(span: Span<'a, B>) -> Self {
        Self {
            mode: Mode::Write,
            span,
        }
    }
}

mod sealed {
    use super::{Backend, Use};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be an access to memory: only `read`, `write` and `read_write` make those",
        label = "not an access",
        note = "an access names a buffer and how it is used, which is how the crate keeps the order and the memory right"
    )]
    pub trait Access<B: Backend> {
        /// The size of an element, in bytes.
        const ELEMENT: usize;

        fn used(&self) -> Use<'_, B>;
    }

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be a list of accesses to memory: only tuples of accesses are",
        label = "not a list of accesses",
        note = "`read`, `write` and `read_write` make accesses; a tuple of one to eight of them is a list"
    )]
    pub trait Accesses<B: Backend> {
        /// The sizes of the elements, in order.
        const ELEMENTS: &'static [usize];

        /// Calls `then` with the accesses in order.
        fn with_uses<R>(&self, then: impl FnOnce(&[Use<'_, B>]) -> R) -> R;
    }
}
pub(crate) use sealed::{Access as SealedAccess, Accesses as SealedAccesses};

/// One [`read`], [`write()`] or [`read_write`] of a buffer of backend `B`, and
/// [nothing else](crate::misuse::sealed::access_of_your_own).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an access to memory of `{B}`",
    label = "say how the launch uses the buffer: `read(&x)`, `write(&x)` or `read_write(&x)`",
    note = "the buffer must be of the backend that launches: `{B}`"
)]
pub trait Access<B: Backend>: SealedAccess<B> {}

/// The accesses of one command: one [`Access`], or a tuple of one to eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of accesses to memory of `{B}`",
    label = "expected a tuple of one to eight `read(&x)`, `write(&x)` or `read_write(&x)`",
    note = "each buffer must be of the backend that launches: `{B}`"
)]
pub trait Accesses<B: Backend>: SealedAccesses<B> {}

macro_rules! access {
    ($access:ident) => {
        impl<T: Pod, B: Backend> SealedAccess<B> for $access<'_, T, B> {
            const ELEMENT: usize = size_of::<T>();

            #[inline]
            fn used(&self) -> Use<'_, B> {
                Use {
                    mode: Mode::$access,
                    span: self.0.span(),
                }
            }
        }
        impl<T: Pod, B: Backend> Access<B> for $access<'_, T, B> {}

        impl<T: Pod, B: Backend> SealedAccesses<B> for $access<'_, T, B> {
            const ELEMENTS: &'static [usize] = &[size_of::<T>()];

            fn with_uses<R>(&self, then: impl FnOnce(&[Use<'_, B>]) -> R) -> R {
                then(&[self.used()])
            }
        }
        impl<T: Pod, B: Backend> Accesses<B> for $access<'_, T, B> {}
    };
}
access!(Read);
access!(Write);
access!(ReadWrite);

macro_rules! accesses {
    ($($access:ident $place:tt),+) => {
        impl<B: Backend, $($access: Access<B>),+> SealedAccesses<B> for ($($access,)+) {
            const ELEMENTS: &'static [usize] = &[$($access::ELEMENT),+];

            fn with_uses<R>(&self, then: impl FnOnce(&[Use<'_, B>]) -> R) -> R {
                then(&[$(self.$place.used()),+])
            }
        }
        impl<B: Backend, $($access: Access<B>),+> Accesses<B> for ($($access,)+) {}
    };
}
accesses!(A 0);
accesses!(A 0, C 1);
accesses!(A 0, C 1, D 2);
accesses!(A 0, C 1, D 2, E 3);
accesses!(A 0, C 1, D 2, E 3, F 4);
accesses!(A 0, C 1, D 2, E 3, F 4, G 5);
accesses!(A 0, C 1, D 2, E 3, F 4, G 5, H 6);
accesses!(A 0, C 1, D 2, E 3, F 4, G 5, H 6, I 7);
