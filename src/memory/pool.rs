//! The pool of a device: pages that are free, pages that a capture primed, and the way back to the
//! driver (M2 to M5, M7).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::error::Error;
use crate::lost::keep_for_good;
use crate::memory::Returns;
use crate::memory::page::{Page, page_bytes};
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
    /// whole pages adds.
    pub allocated: usize,
}

/// The free pages of a device, and its figures.
pub(crate) struct Pool<B: Backend> {
    free: Mutex<Shelf<B>>,
    returns: Returns<Page<B>>,
    figures: Figures,
}

/// Pages by size.
struct Shelf<B: Backend>(BTreeMap<usize, Vec<Page<B>>>);

impl<B: Backend> Shelf<B> {
    fn new() -> Self {
        Self(BTreeMap::new())
    }

    fn put(&mut self, size: usize, page: Page<B>) {
        self.0.entry(size).or_default().push(page);
    }

    /// A page shelved at `size` to `most`, the smallest.
    fn take(&mut self, size: usize, most: usize) -> Option<Page<B>> {
        self.0
            .range_mut(size..=most)
            .find_map(|(_, pages)| pages.pop())
    }

    fn take_largest(&mut self) -> Option<Page<B>> {
        self.0.values_mut().rev().find_map(Vec::pop)
    }

    fn into_pages(self) -> impl Iterator<Item = Page<B>> {
        self.0.into_values().flatten()
    }
}

/// Sums of bytes. Each is exact by itself; two of them may be read a moment apart.
#[derive(Default)]
struct Figures {
    /// Asked for, by handles that are there.
    in_use: AtomicUsize,
    /// Asked for, by blocks that are there.
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
                Page::allocate(device, bytes)
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

    /// Lets free pages go until what is allocated, with `more` to come, is at most twice what is
    /// taken.
    fn shed(&self, more: usize) {
        let figures = &self.figures;
        let mut free = lock(&self.free);
        let bound = match more {
            usize::MAX => 0,
            more => get(&figures.taken).saturating_add(more).saturating_mul(2),
        };
        let mut left = get(&figures.pages)
            .saturating_sub(get(&figures.lost))
            .saturating_add(more);
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

    /// Pages are free again.
    pub(crate) fn take_back(&self, pages: impl IntoIterator<Item = Page<B>>) {
        let mut free = lock(&self.free);
        for page in pages {
            free.put(page.bytes, page);
        }
    }

    pub(crate) fn count_handle(&self, bytes: usize) {
        add(&self.figures.in_use, bytes);
    }

    pub(crate) fn uncount_handle(&self, bytes: usize) {
        sub(&self.figures.in_use, bytes);
    }

    pub(crate) fn count_block(&self, bytes: usize, page: usize) {
        add(&self.figures.blocks, bytes);
        add(&self.figures.taken, page);
    }

    pub(crate) fn uncount_block(&self, bytes: usize, page: usize) {
        sub(&self.figures.blocks, bytes);
        sub(&self.figures.taken, page);
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

/// What a warm-up leaves for its recording (M3): the pages that its allocations needed at once,
/// which nobody else gets (N12).
pub(crate) struct Primed<B: Backend> {
    pool: Arc<Pool<B>>,
    /// `None` when the capture is over.
    stock: Mutex<Option<Stock<B>>>,
}

/// Pages, and how many of each size one pass of the warm-up had out.
struct Stock<B: Backend> {
    pages: Shelf<B>,
    out: BTreeMap<usize, Out>,
    /// The recording has all that it can need: what the warm-up frees from here on is everybody's.
    reserved: bool,
}

#[derive(Default)]
struct Out {
    now: usize,
    most: usize,
}

impl<B: Backend> Primed<B> {
    pub(crate) fn new(pool: &Arc<Pool<B>>) -> Arc<Self> {
        Self::with(pool, Shelf::new())
    }

    fn with(pool: &Arc<Pool<B>>, pages: Shelf<B>) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::clone(pool),
            stock: Mutex::new(Some(Stock {
                pages,
                out: BTreeMap::new(),
                reserved: false,
            })),
        })
    }

    /// Another pass, which finds the pages that this one leaves.
    pub(crate) fn again(&self) -> Arc<Self> {
        let pages = lock(&self.stock).take().map(|stock| stock.pages);
        Self::with(&self.pool, pages.unwrap_or_else(Shelf::new))
    }

    /// A page that the warm-up freed, for `asked` bytes.
    pub(crate) fn reuse(&self, asked: usize) -> Option<Page<B>> {
        let size = page_bytes(asked);
        lock(&self.stock).as_mut()?.pages.take(size, size)
    }

    /// The warm-up has taken a page for `asked` bytes.
    pub(crate) fn took(&self, asked: usize) {
        if let Some(stock) = &mut *lock(&self.stock) {
            let out = stock.out.entry(page_bytes(asked)).or_default();
            out.now += 1;
            out.most = out.most.max(out.now);
        }
    }

    /// A block of the warm-up, of `asked` bytes, is gone: its page stays here; or comes back, if the
    /// warm-up is over.
    pub(crate) fn put(&self, asked: usize, page: Page<B>) -> Option<Page<B>> {
        let size = page_bytes(asked);
        let mut stock = lock(&self.stock);
        let Some(stock) = stock.as_mut().filter(|stock| !stock.reserved) else {
            return Some(page);
        };
        let out = stock.out.entry(size).or_default();
        out.now = out.now.saturating_sub(1);
        stock.pages.put(size, page);
        None
    }

    /// Makes sure that the recording will find what the warm-up had out at most, also where the
    /// caller still has the warm-up's own buffers; the rest goes to the pool.
    ///
    /// # Errors
    /// As [`Pool::page`].
    pub(crate) fn reserve(&self, device: &B, record: &Record) -> Result<(), Error> {
        let lacking = {
            let mut stock = lock(&self.stock);
            let Some(stock) = &mut *stock else {
                return Ok(());
            };
            stock.reserved = true;
            self.pool.take_back(stock.spare());
            stock.lacking()
        };
        // The driver is asked with nothing locked.
        for size in lacking {
            let page = self.pool.page(device, record, size)?;
            match &mut *lock(&self.stock) {
                Some(stock) => stock.pages.put(size, page),
                None => self.pool.take_back([page]),
            }
        }
        Ok(())
    }

    /// The capture is over: what it did not use goes to the pool.
    pub(crate) fn close(&self) {
        let stock = lock(&self.stock).take();
        if let Some(stock) = stock {
            self.pool.take_back(stock.pages.into_pages());
        }
    }
}

impl<B: Backend> Drop for Primed<B> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<B: Backend> Stock<B> {
    /// Pages above what one pass had out at most.
    fn spare(&mut self) -> Vec<Page<B>> {
        let mut spare = Vec::new();
        for (size, pages) in &mut self.pages.0 {
            let needed = self.out.get(size).map_or(0, |out| out.most);
            spare.extend(pages.drain(needed.min(pages.len())..));
        }
        spare
    }

    /// The sizes of the pages below it.
    fn lacking(&self) -> Vec<usize> {
        let lacks = |(&size, out): (&usize, &Out)| {
            let has = self.pages.0.get(&size).map_or(0, Vec::len);
            std::iter::repeat_n(size, out.most.saturating_sub(has))
        };
        self.out.iter().flat_map(lacks).collect()
    }
}
