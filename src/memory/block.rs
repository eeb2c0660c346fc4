//! One allocation, who holds it, and how it goes back.
#![allow(unsafe_code)] // `ManuallyDrop::take`, to move memory out of a block that is dropped.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;

/// Memory whose last holder has gone, waiting for a moment at which no window of its device is
/// open (M5). One queue a device, so the queue also says whose a block is (M10).
pub(crate) struct Returns<B: Backend>(Mutex<Vec<B::Memory>>);

impl<B: Backend> Returns<B> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Whether both are of one device.
    pub(crate) fn is(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        Arc::ptr_eq(self, other)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Frees what waits. To be called under the device's gate.
    pub(crate) fn drain(&self) {
        // The queue is unlocked while the driver frees: other threads go on dropping.
        let waiting = std::mem::take(&mut *self.waiting());
        drop(waiting);
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<B::Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One allocation. Its last holder, a buffer or a graph, may drop it on any thread and inside any
/// window: the memory only joins the queue of its device.
pub(crate) struct Block<B: Backend> {
    id: u64,
    bytes: usize,
    memory: ManuallyDrop<B::Memory>,
    returns: Arc<Returns<B>>,
}

impl<B: Backend> Block<B> {
    pub(crate) fn new(memory: B::Memory, bytes: usize, returns: &Arc<Returns<B>>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            bytes,
            memory: ManuallyDrop::new(memory),
            returns: Arc::clone(returns),
        })
    }

    /// Unique in the process, never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it goes back to this queue: whether it is of the queue's device.
    pub(crate) fn goes_to(&self, returns: &Arc<Returns<B>>) -> bool {
        self.returns.is(returns)
    }
}

impl<B: Backend> Drop for Block<B> {
    fn drop(&mut self) {
        // SAFETY: this is the block's drop, which runs once, and nothing reads the field after it.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        self.returns.waiting().push(memory);
    }
}

/// Memory that is kept alive: what a recorded command holds instead of a user's buffer (M1).
pub struct Held<B: Backend>(Arc<Block<B>>);

impl<B: Backend> Held<B> {
    pub(crate) fn new(block: &Arc<Block<B>>) -> Self {
        Self(Arc::clone(block))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }
}

impl<B: Backend> Deref for Held<B> {
    type Target = B::Memory;

    fn deref(&self) -> &B::Memory {
        &self.0.memory
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

/// Bytes of one allocation, as a backend gets them: checked to lie inside it.
pub struct Span<'a, B: Backend> {
    block: &'a Arc<Block<B>>,
    start: usize,
    bytes: usize,
}

impl<'a, B: Backend> Span<'a, B> {
    pub(crate) fn new(block: &'a Arc<Block<B>>, start: usize, bytes: usize) -> Self {
        Self {
            block,
            start,
            bytes,
        }
    }

    /// The allocation.
    #[must_use]
    pub fn memory(&self) -> &'a B::Memory {
        &self.block.memory
    }

    /// The bytes of the allocation that are meant. Never empty.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.start..self.start.saturating_add(self.bytes)
    }

    /// Keeps the allocation alive, for a recorded or queued command.
    #[must_use]
    pub fn hold(&self) -> Held<B> {
        Held::new(self.block)
    }

    pub(crate) fn block(&self) -> &'a Arc<Block<B>> {
        self.block
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<B: Backend> Clone for Span<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Span<'_, B> {}
