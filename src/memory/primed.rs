//! What a warm-up leaves for its recording (M3, M4).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::error::Error;
use crate::memory::page::{Page, page_bytes};
use crate::memory::pool::Pool;
use crate::memory::shelf::Shelf;
use crate::record::Record;

/// The pages of a capture, which nobody else gets (N12): in the warm-up those that it freed, as many
/// as it had at once (M3); in the window those that were planned for it (M4).
pub(crate) struct Primed<B: Backend> {
    pool: Arc<Pool<B>>,
    stock: Mutex<Stock<B>>,
}

enum Stock<B: Backend> {
    WarmUp {
        pages: Shelf<B>,
        /// Bytes of the pages that its blocks have, and the most that they and what was freed were.
        out: usize,
        most: usize,
    },
    /// The pages of the plan, by number.
    Window(Vec<Option<Page<B>>>),
    /// The capture is over.
    Closed,
}

/// A page that a larger one serves is at most a quarter of it too small.
const fn most(size: usize) -> usize {
    size.saturating_add(size / 4)
}

impl<B: Backend> Primed<B> {
    pub(crate) fn new(pool: &Arc<Pool<B>>) -> Arc<Self> {
        Self::with(pool, Shelf::new())
    }

    fn with(pool: &Arc<Pool<B>>, pages: Shelf<B>) -> Arc<Self> {
        let (out, most) = (0, pages.bytes());
        Arc::new(Self {
            pool: Arc::clone(pool),
            stock: Mutex::new(Stock::WarmUp { pages, out, most }),
        })
    }

    pub(crate) fn pool(&self) -> &Arc<Pool<B>> {
        &self.pool
    }

    /// Another pass, which finds the pages that this one leaves.
    pub(crate) fn again(&self) -> Arc<Self> {
        let stock = std::mem::replace(&mut *self.stock(), Stock::Closed);
        let pages = match stock {
            Stock::WarmUp { pages, .. } => pages,
            Stock::Window(_) | Stock::Closed => Shelf::new(),
        };
        Self::with(&self.pool, pages)
    }

    /// A page for `asked` bytes of the warm-up: one that it freed, or the pool's, or the driver's.
    ///
    /// # Errors
    /// As [`Pool::page`].
    pub(crate) fn page(&self, device: &B, record: &Record, asked: usize) -> Result<Page<B>, Error> {
        let size = page_bytes(asked);
        let (page, spare) = {
            let mut stock = self.stock();
            let Stock::WarmUp { pages, .. } = &mut *stock else {
                return self.pool.page(device, record, asked);
            };
            match pages.take(size, most(size)) {
                Some(page) => (Some(page), Vec::new()),
                None => (None, stock.spare(size)),
            }
        };
        self.pool.take_back(spare);
        let page = match page {
            Some(page) => page,
            // With nothing locked.
            None => self.pool.page(device, record, asked)?,
        };
        let spare = {
            let mut stock = self.stock();
            if let Stock::WarmUp { out, .. } = &mut *stock {
                *out = out.saturating_add(page.bytes);
            }
            stock.spare(0)
        };
        self.pool.take_back(spare);
        Ok(page)
    }

    /// A block of the warm-up is gone, and its page is free. What then need not stay here goes to the
    /// pool: all of it, if the warm-up is over.
    pub(super) fn put(&self, page: Page<B>) {
        let spare = {
            let mut stock = self.stock();
            match &mut *stock {
                Stock::WarmUp { pages, out, .. } => {
                    *out = out.saturating_sub(page.bytes);
                    pages.put(page);
                    stock.spare(0)
                }
                Stock::Window(_) | Stock::Closed => vec![page],
            }
        };
        self.pool.take_back(spare);
    }

    /// The warm-up is over: makes sure that the window will find the pages of its plan, also where
    /// the caller still has the warm-up's own buffers. The rest goes to the pool.
    ///
    /// # Errors
    /// As [`Pool::page`].
    pub(crate) fn reserve(
        &self,
        device: &B,
        record: &Record,
        planned: &[usize],
    ) -> Result<(), Error> {
        let before = std::mem::replace(&mut *self.stock(), Stock::Closed);
        let Stock::WarmUp { mut pages, .. } = before else {
            return Ok(());
        };
        // The largest first, which have the least choice.
        let mut order: Vec<_> = planned.iter().copied().enumerate().collect();
        order.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        let mut found: Vec<_> = planned.iter().map(|_| None).collect();
        order.retain(|&(at, bytes)| {
            let size = page_bytes(bytes);
            let page = pages.take(size, most(size));
            let lacks = page.is_none();
            if let Some(slot) = found.get_mut(at) {
                *slot = page;
            }
            lacks
        });
        self.pool.take_back(pages.into_pages());
        // The driver is asked with nothing locked. Where it refuses, what was found goes back.
        let mut window = Stock::Window(found);
        let asked = order.into_iter().try_for_each(|(at, bytes)| {
            let page = self.pool.page(device, record, bytes)?;
            if let Stock::Window(found) = &mut window
                && let Some(slot) = found.get_mut(at)
            {
                *slot = Some(page);
            }
            Ok(())
        });
        *self.stock() = window;
        // While the window is open nothing will go back (M5).
        self.pool.shed_beside(planned);
        asked
    }

    /// A page of the plan, once.
    pub(crate) fn planned(&self, number: usize) -> Option<Page<B>> {
        match &mut *self.stock() {
            Stock::Window(pages) => pages.get_mut(number)?.take(),
            Stock::WarmUp { .. } | Stock::Closed => None,
        }
    }

    /// The capture is over: what it did not use goes to the pool.
    pub(crate) fn close(&self) {
        let stock = std::mem::replace(&mut *self.stock(), Stock::Closed);
        match stock {
            Stock::WarmUp { pages, .. } => self.pool.take_back(pages.into_pages()),
            Stock::Window(pages) => self.pool.take_back(pages.into_iter().flatten()),
            Stock::Closed => {}
        }
    }

    fn stock(&self) -> MutexGuard<'_, Stock<B>> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Drop for Primed<B> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<B: Backend> Stock<B> {
    /// With `more` bytes to be taken: what a warm-up has freed above the most that it had at once.
    fn spare(&mut self, more: usize) -> Vec<Page<B>> {
        let mut spare = Vec::new();
        if let Self::WarmUp { pages, out, most } = self {
            let out = out.saturating_add(more);
            *most = out.max(*most);
            while pages.bytes() > most.saturating_sub(out) {
                spare.extend(pages.take_smallest());
            }
        }
        spare
    }
}
