//! Memory of a page: who holds it, and where it goes when nobody does.
#![allow(unsafe_code)] // `ManuallyDrop::take`, to move a page out of a block that is dropped.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::backend::Backend;
use crate::memory::mark::Mark;
use crate::memory::page::Page;
use crate::memory::pool::{Pool, Primed};
use crate::memory::returns::Returns;

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A page that is taken: by buffers of users, through their [`Handle`], and by graphs. The last of
/// them to go, on whichever thread and inside whichever window, puts the page back into the pool.
pub(crate) struct Block<B: Backend> {
    id: u64,
    bytes: usize,
    page: ManuallyDrop<Page<B>>,
    pool: Arc<Pool<B>>,
    /// The warm-up that it was allocated in, and whose recording will want the page.
    warm_up: Option<Arc<Primed<B>>>,
    /// How many recordings and graphs touch it.
    recordings: AtomicUsize,
    pub(crate) mark: Mark,
}

impl<B: Backend> Block<B> {
    pub(crate) fn new(
        page: Page<B>,
        bytes: usize,
        pool: &Arc<Pool<B>>,
        warm_up: Option<Arc<Primed<B>>>,
    ) -> Arc<Self> {
        pool.count_block(bytes, page.bytes);
        Arc::new(Self {
            id: next_id(),
            bytes,
            page: ManuallyDrop::new(page),
            pool: Arc::clone(pool),
            warm_up,
            recordings: AtomicUsize::new(0),
            mark: Mark::default(),
        })
    }

    /// Unique in the process, never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn page(&self) -> &Page<B> {
        &self.page
    }

    /// Whether one recording touches it, and no other recording or graph.
    pub(crate) fn is_of_one_recording(&self) -> bool {
        self.recordings.load(Ordering::Acquire) == 1
    }

    /// Whether it belongs to the device of this pool (M10).
    #[inline]
    pub(crate) fn is_of(&self, pool: &Arc<Pool<B>>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }
}

impl<B: Backend> Drop for Block<B> {
    fn drop(&mut self) {
        // SAFETY: this is the block's drop, which runs once, and nothing reads the field after it.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };
        self.pool.uncount_block(self.bytes, page.bytes);
        let page = match &self.warm_up {
            Some(warm_up) => warm_up.put(self.bytes, page),
            None => Some(page),
        };
        self.pool.take_back(page);
    }
}

/// What the buffers of users share, and graphs do not: when it goes, nobody outside can reach the
/// memory any more, and a window in which it was allocated may use it again (M2).
pub(crate) struct Handle<B: Backend> {
    id: u64,
    block: Arc<Block<B>>,
    bytes: usize,
    /// The window that it was allocated in.
    window: Option<Arc<Returns<u64>>>,
    /// Whether it is a user's.
    counted: bool,
    /// Its number in the run that used it last, and which run that was: see [`Handle::number_in`].
    seen: AtomicU64,
}

/// The bits of a number in [`Handle::seen`]; above them stands the run.
const NUMBER_BITS: u32 = 24;

impl<B: Backend> Handle<B> {
    pub(crate) fn new(
        block: Arc<Block<B>>,
        bytes: usize,
        window: Option<Arc<Returns<u64>>>,
        counted: bool,
    ) -> Arc<Self> {
        if counted {
            block.pool.count_handle(bytes);
        }
        Arc::new(Self {
            id: next_id(),
            block,
            bytes,
            window,
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
            self.block.pool.uncount_handle(self.bytes);
        }
        if let Some(window) = &self.window {
            window.put([self.block.id]);
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
        &self.0.page.memory
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
        &self.block().page.memory
    }

    /// The bytes of the allocation that are meant. Never empty.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.bytes)
    }

    /// Keeps the allocation alive, for a recorded or queued command.
    #[must_use]
    pub fn hold(&self) -> Held<B> {
        Held::new(self.block())
    }

    /// Whether both are of one allocation.
    #[must_use]
    #[inline]
    pub fn is_same_memory(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.block(), other.block())
    }

    pub(crate) fn handle(&self) -> &'a Arc<Handle<B>> {
        self.handle
    }

    pub(crate) fn block(&self) -> &'a Arc<Block<B>> {
        &self.handle.block
    }

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
            && self.start < other.range().end
            && other.start < self.range().end
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
