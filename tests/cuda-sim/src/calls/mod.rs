//! The functions of the driver, by group. Those that allow it are answered under a context that has
//! failed; the others return what it failed with.

mod contexts;
mod errors;
mod graphs;
mod memory;
mod modules;
mod streams;

use crate::code;
use crate::state::Code;

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `into` is null, or has room for a `T`.
unsafe fn put<T>(into: *mut T, value: T) -> Result<(), Code> {
    if into.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: it is not null, so it has room.
    unsafe { into.write(value) };
    Ok(())
}
