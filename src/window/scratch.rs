//! The allocations of a capture: how long each one of the warm-up lives, and where those of the
//! recording live for that (M2 to M4).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::backend::Backend;
use crate::memory::{Block, Gone, Lease, Page, Pool, Primed, Returns};
use crate::window::plan::{FOR_GOOD, Life, Plan};

/// Where the handle of an allocation says that it is gone, and as which.
pub(super) type Leaving = (Arc<Returns<Gone>>, usize);

/// The allocations of one pass of a warm-up.
pub(super) struct Lives {
    gone: Arc<Returns<Gone>>,
    lives: Vec<Life>,
}

impl Lives {
    pub(super) fn new() -> Self {
        Self {
            gone: Arc::new(Returns::new()),
            lives: Vec::new(),
        }
    }

    /// The next allocation.
    pub(super) fn begin(&mut self, bytes: usize) {
        self.settle();
        let until = FOR_GOOD;
        self.lives.push(Life { bytes, until });
    }

    /// As what the allocation that began last will leave.
    pub(super) fn last(&self) -> Leaving {
        (Arc::clone(&self.gone), self.lives.len().saturating_sub(1))
    }

    /// Takes in which handles have gone. What another capture has recorded meanwhile stays.
    fn settle(&mut self) {
        let now = self.lives.len();
        for Gone { at, recordings } in self.gone.take() {
            if let Some(life) = self.lives.get_mut(at)
                && recordings == 0
            {
                life.until = now;
            }
        }
    }

    /// Where the recording of all this will have its memory.
    pub(super) fn plan<B: Backend>(&self) -> Plan {
        // Who goes now goes behind the last allocation, which nobody can have the memory of.
        Plan::new(&self.lives, B::PARTS_MEMORY)
    }
}

/// The memory of a recording, as its plan has it.
pub(super) struct Scratch<B: Backend> {
    gone: Arc<Returns<Gone>>,
    lives: Vec<Life>,
    plan: Plan,
    /// By number: the pages of the plan that have been used, and then those of the pool.
    pages: Vec<Option<Lent<B>>>,
    /// By the allocations' places: what each has, while it has it.
    regions: Vec<Option<Region>>,
    /// What was dropped before the plan needs it again.
    early: Vec<Region>,
    /// The blocks so far, by page, start and bytes: who comes back to the same bytes has the same.
    blocks: FxHashMap<(usize, usize, usize), Arc<Block<B>>>,
}

/// A page of this recording.
struct Lent<B: Backend> {
    lease: Arc<Lease<B>>,
    /// Where somebody is: the ends by the starts.
    there: BTreeMap<usize, usize>,
}

/// Bytes of a page that an allocation may have.
#[derive(Debug, Clone, Copy)]
struct Region {
    page: usize,
    start: usize,
    bytes: usize,
    /// The place of the allocation from which on the plan has something else there.
    until: usize,
}

impl<B: Backend> Scratch<B> {
    /// For a recording that repeats a warm-up with these allocations.
    pub(super) fn new(lives: &mut Lives, plan: Plan) -> Self {
        Self {
            gone: Arc::new(Returns::new()),
            lives: std::mem::take(&mut lives.lives),
            pages: plan.pages.iter().map(|_| None).collect(),
            plan,
            regions: Vec::new(),
            early: Vec::new(),
            blocks: FxHashMap::default(),
        }
    }

    /// As what the allocation that began last will leave.
    pub(super) fn last(&self) -> Leaving {
        let at = self.regions.len().saturating_sub(1);
        (Arc::clone(&self.gone), at)
    }

    /// Memory for the next allocation: what was dropped before its time, or what is planned, or else
    /// what the pool has. Nothing, where none of it is there and free (M4).
    ///
    /// No two blocks share a byte while both have a handle, whatever the recording drops when.
    pub(super) fn begin(&mut self, bytes: usize, primed: &Primed<B>) -> Option<Arc<Block<B>>> {
        self.settle();
        let found = self
            .early(bytes)
            .or_else(|| self.planned(bytes, primed))
            .or_else(|| self.of_pool(bytes, primed.pool()));
        self.regions.push(found);
        let Region { page, start, .. } = found?;
        let lent = self.pages.get_mut(page)?.as_mut()?;
        lent.there.insert(start, start.saturating_add(bytes));
        let block = self
            .blocks
            .entry((page, start, bytes))
            .or_insert_with(|| Block::new(Arc::clone(&lent.lease), start, bytes));
        Some(Arc::clone(block))
    }

    /// The place of the allocation that begins.
    fn now(&self) -> usize {
        self.regions.len()
    }

    /// Takes in which handles have gone. What another capture has recorded meanwhile is not ours to
    /// take again (M2): it is there for good.
    fn settle(&mut self) {
        let now = self.now();
        for Gone { at, recordings } in self.gone.take() {
            if recordings > 1 {
                continue;
            }
            let Some(region) = self.regions.get_mut(at).and_then(Option::take) else {
                continue;
            };
            if let Some(Some(lent)) = self.pages.get_mut(region.page) {
                lent.there.remove(&region.start);
            }
            self.early.push(region);
        }
        self.early.retain(|region| region.until > now);
    }

    /// What was dropped before its time, if the plan leaves it alone for as long as the warm-up had
    /// this allocation: the smallest that fits.
    fn early(&mut self, bytes: usize) -> Option<Region> {
        let until = self.lives.get(self.now())?.until;
        let fits = |(_, region): &(usize, &Region)| {
            region.bytes >= bytes && region.until >= until && self.is_free(region, bytes)
        };
        let fitting = self.early.iter().enumerate().filter(fits);
        let (at, _) = fitting.min_by_key(|(_, region)| region.bytes)?;
        Some(self.early.swap_remove(at))
    }

    /// The planned place, unless somebody is still there: who was dropped later than in the warm-up.
    fn planned(&mut self, bytes: usize, primed: &Primed<B>) -> Option<Region> {
        let (place, life) = (
            self.plan.places.get(self.now())?,
            self.lives.get(self.now())?,
        );
        let region = Region {
            page: place.page,
            start: place.start,
            bytes: life.bytes,
            until: life.until,
        };
        let slot = self.pages.get_mut(region.page)?;
        if slot.is_none() {
            let page = primed.planned(region.page)?;
            *slot = Some(Lent::new(page, primed.pool()));
        }
        (bytes <= region.bytes && self.is_free(&region, bytes)).then_some(region)
    }

    /// A page of the pool, which then is this recording's.
    fn of_pool(&mut self, asked: usize, pool: &Arc<Pool<B>>) -> Option<Region> {
        let page = pool.reuse(asked)?;
        let region = Region {
            page: self.pages.len(),
            start: 0,
            bytes: page.bytes,
            until: FOR_GOOD,
        };
        self.pages.push(Some(Lent::new(page, pool)));
        Some(region)
    }

    fn is_free(&self, region: &Region, bytes: usize) -> bool {
        let Some(Some(lent)) = self.pages.get(region.page) else {
            return false;
        };
        // They do not overlap, so the last one that starts before the end tells.
        let end = region.start.saturating_add(bytes);
        let before = lent.there.range(..end).next_back();
        before.is_none_or(|(_, &end)| end <= region.start)
    }
}

impl<B: Backend> Lent<B> {
    fn new(page: Page<B>, pool: &Arc<Pool<B>>) -> Self {
        Self {
            lease: Lease::shared(page, pool),
            there: BTreeMap::new(),
        }
    }
}
