//! Memory of the host device.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytemuck::Pod;

use crate::error::Error;

use super::faults::{Faults, Step};

/// One allocation of the host device.
///
/// The lock is what makes the cell safe; it never waits long, since every command runs in the turn
/// of its device.
pub struct Memory {
    // Words of 16 bytes: the alignment that buffers promise.
    words: RwLock<Vec<u128>>,
    bytes: usize,
    faults: Arc<Faults>,
}

impl Memory {
    /// Zeroed memory of at least `bytes` bytes.
    pub(super) fn new(bytes: usize, faults: &Arc<Faults>) -> Result<Self, Error> {
        let allocate = || {
            Ok::<_, Error>(Self {
                words: RwLock::new(faults.allocate(bytes)?),
                bytes,
                faults: Arc::clone(faults),
            })
        };
        let mut made = None;
        let attempted = faults.attempt(Step::Allocation, "alloc", || {
            made = Some(allocate()?);
            Ok(())
        });
        match (attempted, made) {
            (Ok(()), Some(memory)) => Ok(memory),
            (Ok(()), None) => Err(Error::out_of_memory(bytes)),
            (Err(failed), made) => {
                // Where it failed after its effect, nobody is given the memory.
                if let Some(memory) = made {
                    faults.undo(memory.into_words(), bytes);
                }
                Err(failed)
            }
        }
    }

    pub(super) fn free(self) -> Result<(), Error> {
        let (faults, bytes) = (Arc::clone(&self.faults), self.bytes);
        faults.free(self.into_words(), bytes)
    }

    fn into_words(self) -> Vec<u128> {
        self.words
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Vec<u128>> {
        self.words.read().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Vec<u128>> {
        self.words.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The elements in `range`, a range of bytes. A span lies in its memory and starts at a multiple of
/// its element, so the empty slice is never the answer.
pub(super) fn elements<T: Pod>(words: &[u128], range: Range<usize>) -> &[T] {
    elements_of(bytemuck::cast_slice(words).get(range).unwrap_or_default())
}

/// As [`elements`], to write.
pub(super) fn elements_mut<T: Pod>(words: &mut [u128], range: Range<usize>) -> &mut [T] {
    let bytes = bytemuck::cast_slice_mut(words);
    elements_of_mut(bytes.get_mut(range).unwrap_or_default())
}

pub(super) fn elements_of<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::try_cast_slice(bytes).unwrap_or_default()
}

pub(super) fn elements_of_mut<T: Pod>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// Copies between two pieces of memory, or within one.
pub(super) fn copy(from: &Memory, source: Range<usize>, to: &Memory, target: Range<usize>) {
    if std::ptr::eq(from, to) {
        let mut words = to.write();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        if source.end <= bytes.len() && target.end <= bytes.len() {
            bytes.copy_within(source, target.start);
        }
        return;
    }
    elements_mut(&mut to.write(), target).copy_from_slice(elements::<u8>(&from.read(), source));
}

/// What a kernel gets of memory that it uses more than once.
pub(super) enum Part<'v> {
    Shared(&'v [u8]),
    Unique(&'v mut [u8]),
}

/// Parts `bytes` among accesses that do not overlap where one writes: `accesses` are their ranges,
/// and whether they write. The parts come in the order of the accesses.
pub(super) fn part<'v>(
    bytes: &'v mut [u8],
    accesses: impl Iterator<Item = (usize, Range<usize>, bool)> + Clone,
) -> Vec<(usize, Part<'v>)> {
    let mut writes: Vec<_> = accesses.clone().filter(|access| access.2).collect();
    writes.sort_by_key(|(_, range, _)| range.start);
    let mut parts = Vec::new();
    // Between the writes lies what may be read, by any number.
    let mut gaps: Vec<(usize, &'v [u8])> = Vec::new();
    let (mut rest, mut begin) = (bytes, 0);
    for (place, range, _) in writes {
        let before = range.start.saturating_sub(begin);
        let Some((gap, tail)) = rest.split_at_mut_checked(before) else {
            return parts;
        };
        let Some((own, tail)) = tail.split_at_mut_checked(range.len()) else {
            return parts;
        };
        gaps.push((begin, gap));
        parts.push((place, Part::Unique(own)));
        (rest, begin) = (tail, range.end);
    }
    gaps.push((begin, rest));
    for (place, range, _) in accesses.filter(|access| !access.2) {
        let shared = gaps.iter().find_map(|&(begin, gap)| {
            let start = range.start.checked_sub(begin)?;
            gap.get(start..range.end.checked_sub(begin)?)
        });
        parts.push((place, Part::Shared(shared.unwrap_or_default())));
    }
    parts
}
