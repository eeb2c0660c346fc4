//! One allocation of the driver, and the work that may still use it.

use crate::backend::Backend;
use crate::error::Error;
use crate::order::Uses;

/// One allocation of the driver. Its notes of use stay with it through the pool, so memory that
/// changes hands stays in order too (M9).
pub(crate) struct Page<B: Backend> {
    pub(crate) memory: B::Memory,
    pub(crate) bytes: usize,
    pub(crate) uses: Uses<B>,
    /// Whether it is the caller's: never the pool's to lend, and given back when nobody uses it.
    pub(crate) adopted: bool,
}

impl<B: Backend> Page<B> {
    pub(crate) fn allocate(device: &B, bytes: usize) -> Result<Self, Error> {
        Ok(Self {
            memory: device.allocate(bytes)?,
            bytes,
            uses: Uses::none(),
            adopted: false,
        })
    }

    /// Memory of the caller's.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn adopt(memory: B::Memory, bytes: usize) -> Self {
        Self {
            memory,
            bytes,
            uses: Uses::none(),
            adopted: true,
        }
    }

    /// Waits for the work that uses it, on any stream (M8).
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.uses.wait()
    }
}

/// A page is a multiple of it, as it is aligned to it.
pub(crate) const ALIGN: usize = 16;

/// The size of the page that serves `asked` bytes: sixteen at least, then eight steps a doubling, so
/// that at most an eighth is wasted and pages of like sizes serve each other.
pub(crate) fn page_bytes(asked: usize) -> usize {
    let step = (asked.next_power_of_two() / 16).max(ALIGN);
    asked.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::page_bytes;

    #[test]
    fn a_page_is_a_multiple_of_sixteen_and_wastes_at_most_an_eighth() {
        for asked in (1..5000).chain([1 << 20, (1 << 20) + 1, 3 << 40, isize::MAX as usize]) {
            let page = page_bytes(asked);
            assert!(page >= asked && page.is_multiple_of(16), "{asked}: {page}");
            assert!(page - asked < (asked / 8).max(16), "{asked}: {page}");
            assert_eq!(page_bytes(page), page, "{asked}");
        }
    }
}
