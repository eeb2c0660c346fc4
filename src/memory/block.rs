//! Parts of pages that are taken: who holds them, and who is told when nobody reaches them.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use crate::backend::Backend;
use crate::memory::cover::Cover;
use crate::memory::lease::Lease;
use crate::memory::mark::Mark;
use crate::memory::page::Page;
use crate::memory::pool::Pool;
use crate::memory::returns::Returns;

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Bytes of a page that are taken: by buffers of users, through their [`Handle`], and by graphs.
///
/// Blocks of one page that share bytes are of one window, and no two of them have a handle at once.
pub(crate) struct Block<B: Backend> {
    id: u64,
    lease: Arc<Lease<B>>,
    /// Where it begins in the page.
    start: usize,
    bytes: usize,
    /// How many recordings and graphs touch it.
    recordings: AtomicUsize,
    pub(crate) mark: Mark,
}

impl<B: Backend> Block<B> {
    pub(crate) fn new(lease: Arc<Lease<B>>, start: usize, bytes: usize) -> Arc<Self> {
        let block = Self {
            id: next_id(),
            lease,
            start,
            bytes,
            recordings: AtomicUsize::new(0),
            mark: Mark::default(),
        };
        block.lease.enter(block.range());
        Arc::new(block)
    }

    /// Memory of the caller's, which counts as allocated as long as it is a block.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn adopt(memory: B::Memory, bytes: usize, pool: &Arc<Pool<B>>) -> Arc<Self> {
        pool.count_adopted(bytes);
        let page = Page::adopt(memory, bytes);
        Self::new(Lease::whole(page, pool, None), 0, bytes)
    }

    /// Unique in the process, never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn page(&self) -> &Page<B> {
        self.lease.page()
    }

    /// Where it is in its page.
    fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.bytes)
    }

    /// How many recordings and graphs touch it. Without a handle there will be no more.
    fn recordings(&self) -> usize {
        self.recordings.load(Ordering::Acquire)
    }

    /// Whether it belongs to the device of this pool (M10).
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<Pool<B>>) -> bool {
        Arc::ptr_eq(self.lease.pool(), pool)
    }
}

impl<B: Backend> Drop for Block<B> {
    fn drop(&mut self) {
        self.lease.leave(self.range());
    }
}

/// The bytes that blocks cover together.
pub(crate) fn covered_bytes<'b, B: Backend>(
    blocks: impl Iterator<Item = &'b Arc<Block<B>>>,
) -> usize {
    let mut covers: FxHashMap<*const Lease<B>, Cover> = FxHashMap::default();
    blocks.fold(0usize, |sum, block| {
        let cover = covers.entry(Arc::as_ptr(&block.lease)).or_default();
        sum.saturating_add(cover.add(block.range()))
    })
}

/// What the buffers of users share, and graphs do not: when it goes, nobody outside can reach the
/// memory any more, and a window in which it was allocated may use it again (M2).
pub(crate) struct Handle<B: Backend> {
    id: u64,
    block: Arc<Block<B>>,
    bytes: usize,
    /// The run of a capture that it was allocated in, and where among the run's allocations.
    run: Option<(Arc<Returns<Gone>>, usize)>,
    /// Whether it is a user's.
    counted: bool,
    /// Its number in the run that used it last, and which run that was: see [`Handle::number_in`].
    seen: AtomicU64,
}

/// An allocation whose last handle is gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    /// Its place among the allocations of its run.
    pub(crate) at: usize,
    /// How many recordings and graphs touched it then.
    pub(crate) recordings: usize,
}

/// The bits of a number in [`Handle::seen`]; above them stands the run.
const NUMBER_BITS: u32 = 24;

impl<B: Backend> Handle<B> {
    pub(crate) fn new(
        block: Arc<Block<B>>,
        bytes: usize,
        run: Option<(Arc<Returns<Gone>>, usize)>,
        counted: bool,
    ) -> Arc<Self> {
        if counted {
            block.lease.pool().count_handle(bytes);
        }
        Arc::new(Self {
            id: next_id(),
            block,
            bytes,
            run,
            counted,
            seen: AtomicU64::new(0),
        })
    }

    /// Its number in a run of a capture, where it was the last that gave it one. Runs count from 1,
    /// and are never reused, so an answer is never of another run.
    #[inline]
    pub(crate) fn number_in(&self, run: u64) -> Option<u32> {
        let seen = self.seen.load(Ordering::Relaxed);
        if seen >> NUMBER_BITS != run {
            return None;
        }
        u32::try_from(seen & ((1 << NUMBER_BITS) - 1)).ok()
    }

    /// Whether that number is `number`.
    #[inline]
    pub(crate) fn is_number_in(&self, run: u64, number: u32) -> bool {
        // One too large to be remembered is in no handle.
        self.seen.load(Ordering::Relaxed) ^ (run << NUMBER_BITS) == u64::from(number)
    }

    /// Remembers its number in a run, if there is room for both.
    pub(crate) fn remember(&self, run: u64, number: u32) {
        let number = u64::from(number);
        if number >> NUMBER_BITS == 0 && run >> (u64::BITS - NUMBER_BITS) == 0 {
            let seen = (run << NUMBER_BITS) | number;
            self.seen.store(seen, Ordering::Relaxed);
        }
    }

    /// Unique in the process, never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn block(&self) -> &Arc<Block<B>> {
        &self.block
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<B: Backend> Drop for Handle<B> {
    fn drop(&mut self) {
        if self.counted {
            self.block.lease.pool().uncount_handle(self.bytes);
        }
        if let Some((run, at)) = &self.run {
            let (at, recordings) = (*at, self.block.recordings());
            run.put([Gone { at, recordings }]);
        }
    }
}

/// Memory that is kept alive: what a recorded command holds instead of a user's buffer (M1).
pub struct Held<B: Backend>(Arc<Block<B>>);

impl<B: Backend> Held<B> {
    fn new(block: &Arc<Block<B>>) -> Self {
        Self(Arc::clone(block))
    }
}

impl<B: Backend> Deref for Held<B> {
    type Target = B::Memory;

    fn deref(&self) -> &B::Memory {
        &self.0.page().memory
    }
}

impl<B: Backend> Clone for Held<B> {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl<B: Backend> fmt::Debug for Held<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("bytes", &self.0.bytes)
            .finish_non_exhaustive()
    }
}

/// A block that a recording or a graph touches: kept alive (M1), and counted, since memory that two
/// of them touch is not one's to take again (M2).
pub(crate) struct Touching<B: Backend>(Arc<Block<B>>);

impl<B: Backend> Touching<B> {
    pub(crate) fn new(block: &Arc<Block<B>>) -> Self {
        block.recordings.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(block))
    }

    pub(crate) fn block(&self) -> &Arc<Block<B>> {
        &self.0
    }
}

impl<B: Backend> Drop for Touching<B> {
    fn drop(&mut self) {
        self.0.recordings.fetch_sub(1, Ordering::Release);
    }
}

/// Bytes of one allocation, as a backend gets them: checked to lie inside it.
pub struct Span<'a, B: Backend> {
    handle: &'a Arc<Handle<B>>,
    start: usize,
    bytes: usize,
}

impl<'a, B: Backend> Span<'a, B> {
    pub(crate) fn new(handle: &'a Arc<Handle<B>>, start: usize, bytes: usize) -> Self {
        Self {
            handle,
            start,
            bytes,
        }
    }

    /// The allocation.
    #[must_use]
    pub fn memory(&self) -> &'a B::Memory {
        &self.block().page().memory
    }

    /// The bytes of the allocation that are meant. Never empty.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        let start = self.block().start.saturating_add(self.start);
        start..start.saturating_add(self.bytes)
    }

    /// Keeps the allocation alive, for a recorded or queued command.
    #[must_use]
    pub fn hold(&self) -> Held<B> {
        Held::new(self.block())
    }

    /// Whether both are of one allocation of the backend's: of one buffer, or of buffers that
    /// [part](Backend::PARTS_MEMORY) it.
    #[must_use]
    #[inline]
    pub fn is_same_memory(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.block().lease, &other.block().lease)
    }

    pub(crate) fn handle(&self) -> &'a Arc<Handle<B>> {
        self.handle
    }

    pub(crate) fn block(&self) -> &'a Arc<Block<B>> {
        &self.handle.block
    }

    /// Where it begins in its buffer, as it was allocated.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is all of the buffer that was allocated.
    pub(crate) fn is_whole(&self) -> bool {
        self.bytes == self.handle.bytes
    }

    /// Whether the two have bytes in common.
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.is_same_memory(other)
            && self.range().start < other.range().end
            && other.range().start < self.range().end
    }
}

impl<B: Backend> Clone for Span<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Span<'_, B> {}

impl<B: Backend> fmt::Debug for Span<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Span({:?})", self.range())
    }
}
