//! Memory of the host device.

use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::Pod;

use crate::error::Error;

/// One allocation of the host device.
///
/// The lock is what makes the cell safe; it never waits long, since every command runs under the
/// lock of its device.
pub struct Memory {
    // Words of 16 bytes: the alignment that buffers promise.
    words: RwLock<Vec<u128>>,
}

impl Memory {
    /// Zeroed memory of at least `bytes` bytes.
    pub(super) fn new(bytes: usize) -> Result<Self, Error> {
        let count = bytes.div_ceil(size_of::<u128>());
        let mut words = Vec::new();
        words
            .try_reserve_exact(count)
            .map_err(|_| Error::OutOfMemory { bytes })?;
        words.resize(count, 0);
        Ok(Self {
            words: RwLock::new(words),
        })
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Vec<u128>> {
        self.words.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Vec<u128>> {
        self.words.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The elements in `range`, a range of bytes. A span lies in its memory and starts at a multiple of
/// its element, so the empty slice is never the answer.
pub(super) fn elements<T: Pod>(words: &[u128], range: Range<usize>) -> &[T] {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let bytes = bytes.get(range).unwrap_or_default();
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}

/// As [`elements`], to write.
pub(super) fn elements_mut<T: Pod>(words: &mut [u128], range: Range<usize>) -> &mut [T] {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    let bytes = bytes.get_mut(range).unwrap_or_default();
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}
