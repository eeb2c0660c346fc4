//! A page that is taken: by one block, or by several that have parts of it.
#![allow(unsafe_code)] // `ManuallyDrop::take`, to move a page out of a lease that is dropped.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::memory::cover::Cover;
use crate::memory::page::Page;
use crate::memory::pool::Pool;
use crate::memory::primed::Primed;

/// A page that is out of the pool, as long as any block of it is there. The last of them to go, on
/// whichever thread and inside whichever window, puts the page back.
pub(crate) struct Lease<B: Backend> {
    page: ManuallyDrop<Page<B>>,
    pool: Arc<Pool<B>>,
    /// The warm-up that it was taken in, and whose recording will want the page.
    warm_up: Option<Arc<Primed<B>>>,
    /// What the blocks cover, where there may be several.
    cover: Option<Mutex<Cover>>,
}

impl<B: Backend> Lease<B> {
    /// For one block.
    pub(crate) fn whole(
        page: Page<B>,
        pool: &Arc<Pool<B>>,
        warm_up: Option<Arc<Primed<B>>>,
    ) -> Arc<Self> {
        Self::new(page, pool, warm_up, None)
    }

    /// For the blocks of one window.
    pub(crate) fn shared(page: Page<B>, pool: &Arc<Pool<B>>) -> Arc<Self> {
        Self::new(page, pool, None, Some(Mutex::default()))
    }

    fn new(
        page: Page<B>,
        pool: &Arc<Pool<B>>,
        warm_up: Option<Arc<Primed<B>>>,
        cover: Option<Mutex<Cover>>,
    ) -> Arc<Self> {
        pool.count_taken(page.bytes);
        Arc::new(Self {
            page: ManuallyDrop::new(page),
            pool: Arc::clone(pool),
            warm_up,
            cover,
        })
    }

    pub(crate) fn page(&self) -> &Page<B> {
        &self.page
    }

    pub(crate) fn pool(&self) -> &Arc<Pool<B>> {
        &self.pool
    }

    /// A block takes bytes of it, which count once (M7).
    pub(super) fn enter(&self, bytes: Range<usize>) {
        let new = match &self.cover {
            Some(cover) => lock(cover).add(bytes),
            None => bytes.len(),
        };
        self.pool.count_blocks(new);
    }

    /// That block is gone.
    pub(super) fn leave(&self, bytes: Range<usize>) {
        let gone = match &self.cover {
            Some(cover) => lock(cover).remove(bytes),
            None => bytes.len(),
        };
        self.pool.uncount_blocks(gone);
    }
}

fn lock(cover: &Mutex<Cover>) -> MutexGuard<'_, Cover> {
    cover.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Drop for Lease<B> {
    fn drop(&mut self) {
        // SAFETY: this is the lease's drop, which runs once, and nothing reads the field after it.
        let page = unsafe { ManuallyDrop::take(&mut self.page) };
        self.pool.uncount_taken(page.bytes);
        match &self.warm_up {
            Some(warm_up) => warm_up.put(page),
            None => self.pool.take_back([page]),
        }
    }
}
