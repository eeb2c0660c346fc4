//! Calls of the driver, and what it refused.

use std::fmt;

use cudarc::driver::sys::CUresult;
use cudarc::driver::{DriverError, result};

use crate::error::Error;

/// What the driver refused a call with: the source of [`Error::Driver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The call of the driver, such as `cuStreamEndCapture`.
    pub call: &'static str,
    /// Its code.
    pub code: CUresult,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, code } = self;
        write!(f, "{call}: {code:?} ({})", *code as u32)?;
        match DriverError(*code).error_string() {
            Ok(text) => write!(f, ": {}", text.to_string_lossy()),
            Err(_) => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

/// The answer of a call as a result.
#[inline]
pub(super) fn check(call: &'static str, code: CUresult) -> Result<(), Error> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(refused(call, code))
}

#[cold]
pub(super) fn refused(call: &'static str, code: CUresult) -> Error {
    Error::driver(call, Refusal { call, code })
}

/// As [`check`], for a call that makes something. A driver may answer with the error of earlier work
/// and have made it all the same: then `undo` gets it.
pub(super) fn make<T: Copy + PartialEq>(
    call: &'static str,
    nothing: T,
    run: impl FnOnce(&mut T) -> CUresult,
    undo: impl FnOnce(T),
) -> Result<T, Error> {
    let mut made = nothing;
    let code = run(&mut made);
    if let Err(refused) = check(call, code) {
        if made != nothing {
            undo(made);
        }
        return Err(refused);
    }
    Ok(made)
}

/// What `cudarc` answered.
pub(super) fn code_of(answer: Result<(), result::DriverError>) -> CUresult {
    match answer {
        Ok(()) => CUresult::CUDA_SUCCESS,
        Err(DriverError(code)) => code,
    }
}
