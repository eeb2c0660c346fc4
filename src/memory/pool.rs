//! The pool of a device: pages that are free, and the way back to the driver (M2, M5, M7).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::error::Error;
use crate::lost::keep_for_good;
use crate::memory::Returns;
use crate::memory::page::{ALIGN, Page, page_bytes};
use crate::memory::shelf::Shelf;
use crate::record::Record;

/// Where the memory of a device is, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// In buffers that somebody has a handle to.
    pub in_use: usize,
    /// In buffers without a handle, which graphs and recordings keep.
    pub held_by_graphs: usize,
    /// In the pool, for the next allocations.
    pub free: usize,
    /// On its way back to the driver, which an open window delays (rule M5).
    pub waiting: usize,
    /// Kept for good, because the driver failed to free it or to say when it is unused.
    pub lost: usize,
    /// All that the driver has given and not got back: the figures above, with what rounding to
    /// whole pages adds, and what is left of a page while a part of it is still used.
    pub allocated: usize,
}

/// The free pages of a device, and its figures.
pub(crate) struct Pool<B: Backend> {
    free: Mutex<Shelf<B>>,
    returns: Returns<Page<B>>,
    figures: Figures,
}

/// Sums of bytes. Each is exact by itself; two of them may be read a moment apart.
#[derive(Default)]
struct Figures {
    /// Asked for, by handles that are there.
    in_use: AtomicUsize,
    /// Asked for, by blocks that are there: each byte once.
    blocks: AtomicUsize,
    /// Pages under blocks.
    taken: AtomicUsize,
    lost: AtomicUsize,
    /// All pages.
    pages: AtomicUsize,
}

fn add(figure: &AtomicUsize, bytes: usize) {
    figure.fetch_add(bytes, Ordering::Relaxed);
}

fn sub(figure: &AtomicUsize, bytes: usize) {
    figure.fetch_sub(bytes, Ordering::Relaxed);
}

fn get(figure: &AtomicUsize) -> usize {
    figure.load(Ordering::Relaxed)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B: Backend> Pool<B> {
    pub(crate) fn new() -> Self {
        Self {
            free: Mutex::new(Shelf::new()),
            returns: Returns::new(),
            figures: Figures::default(),
        }
    }

    pub(crate) fn memory(&self) -> DeviceMemory {
        let figures = &self.figures;
        let in_use = get(&figures.in_use);
        let waiting = self.returns.sum(|page| page.bytes);
        let lost = get(&figures.lost);
        let allocated = get(&figures.pages);
        DeviceMemory {
            in_use,
            held_by_graphs: get(&figures.blocks).saturating_sub(in_use),
            free: allocated
                .saturating_sub(get(&figures.taken))
                .saturating_sub(waiting)
                .saturating_sub(lost),
            waiting,
            lost,
            allocated,
        }
    }

    /// A page for `asked` bytes that is free, without asking the driver.
    pub(crate) fn reuse(&self, asked: usize) -> Option<Page<B>> {
        let size = page_bytes(asked);
        // A page that is a quarter too large will do.
        lock(&self.free).take(size, size.saturating_add(size / 4))
    }

    /// A page for `asked` bytes, of the driver if none is free.
    ///
    /// # Errors
    /// The driver's, [`Error::OutOfMemory`] only after all that is free was given back.
    pub(crate) fn page(&self, device: &B, record: &Record, asked: usize) -> Result<Page<B>, Error> {
        if let Some(page) = self.reuse(asked) {
            return Ok(page);
        }
        let bytes = page_bytes(asked);
        if !record.any_recording() {
            self.shed(bytes);
            self.give_back(record);
        }
        let page = match Page::allocate(device, bytes) {
            Err(Error::OutOfMemory { .. }) => {
                // With a window open nothing goes, and the driver says the same again.
                self.shed(usize::MAX);
                self.give_back(record);
                // Or there is room for what was asked, and not for what it is rounded to.
                let exact = asked.checked_next_multiple_of(ALIGN).unwrap_or(bytes);
                Page::allocate(device, bytes).or_else(|_| Page::allocate(device, exact))
            }
            other => other,
        }?;
        add(&self.figures.pages, page.bytes);
        Ok(page)
    }

    /// Gives all free pages back to the driver, unless a window is open.
    pub(crate) fn trim(&self, record: &Record) -> Result<(), Error> {
        self.shed(usize::MAX);
        if self.give_back(record) {
            return Ok(());
        }
        // They may serve until somebody asks again.
        self.take_back(self.returns.take());
        Err(Error::TrimWhileRecording)
    }

    /// Lets free pages go until what is allocated, with `more` to come, is at most twice what was
    /// asked for, as far as free pages can.
    fn shed(&self, more: usize) {
        let bound = match more {
            usize::MAX => 0,
            more => get(&self.figures.blocks)
                .saturating_add(more)
                .saturating_mul(2),
        };
        self.shed_to(bound.saturating_sub(more));
    }

    /// The same, where `pages` of these sizes are not asked for yet, but as good as.
    pub(crate) fn shed_beside(&self, pages: &[usize]) {
        let asked = get(&self.figures.blocks);
        let asked = pages
            .iter()
            .fold(asked, |sum, &bytes| sum.saturating_add(bytes));
        self.shed_to(asked.saturating_mul(2));
    }

    /// Lets free pages go, the largest first, until at most `bound` bytes are allocated.
    fn shed_to(&self, bound: usize) {
        let figures = &self.figures;
        let mut free = lock(&self.free);
        let mut left = get(&figures.pages).saturating_sub(get(&figures.lost));
        while left > bound {
            let Some(page) = free.take_largest() else {
                break;
            };
            left = left.saturating_sub(page.bytes);
            self.returns.put([page]);
        }
    }

    /// Frees what waits for it, and says whether it could: not while a window is open (M5).
    pub(crate) fn give_back(&self, record: &Record) -> bool {
        record.outside_windows(|| self.drain()).is_some()
    }

    /// Frees what waits for it. For whoever holds the gate, with no window open.
    pub(crate) fn drain(&self) {
        for page in self.returns.take() {
            self.free_page(page);
        }
    }

    fn free_page(&self, page: Page<B>) {
        let bytes = page.bytes;
        let freed = match page.wait() {
            Ok(()) => B::free(page.memory),
            Err(unknown) => {
                // Work may still use it: better lost than used by two.
                keep_for_good(page.memory);
                Err(unknown)
            }
        };
        match freed {
            Ok(()) => sub(&self.figures.pages, bytes),
            Err(_) => add(&self.figures.lost, bytes),
        }
    }

    /// Pages are free again. Those of the caller's are not the pool's to lend, and go back.
    pub(crate) fn take_back(&self, pages: impl IntoIterator<Item = Page<B>>) {
        let mut free = lock(&self.free);
        for page in pages {
            if page.adopted {
                self.returns.put([page]);
            } else {
                free.put(page);
            }
        }
    }

    /// Memory of the caller's counts as the device's, as long as it is used here.
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    pub(crate) fn count_adopted(&self, bytes: usize) {
        add(&self.figures.pages, bytes);
    }

    pub(crate) fn count_handle(&self, bytes: usize) {
        add(&self.figures.in_use, bytes);
    }

    pub(crate) fn uncount_handle(&self, bytes: usize) {
        sub(&self.figures.in_use, bytes);
    }

    /// Blocks cover `bytes` more bytes.
    pub(crate) fn count_blocks(&self, bytes: usize) {
        add(&self.figures.blocks, bytes);
    }

    pub(crate) fn uncount_blocks(&self, bytes: usize) {
        sub(&self.figures.blocks, bytes);
    }

    /// A page of `bytes` bytes is taken.
    pub(crate) fn count_taken(&self, bytes: usize) {
        add(&self.figures.taken, bytes);
    }

    pub(crate) fn uncount_taken(&self, bytes: usize) {
        sub(&self.figures.taken, bytes);
    }
}

impl<B: Backend> Drop for Pool<B> {
    fn drop(&mut self) {
        // The last handle of the device is gone, and with it every stream: no window is open.
        let free = std::mem::replace(
            self.free.get_mut().unwrap_or_else(PoisonError::into_inner),
            Shelf::new(),
        );
        self.returns.put(free.into_pages());
        self.drain();
    }
}
