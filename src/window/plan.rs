//! Where each allocation of a recording will live, planned before its window opens (M3, M4): so that
//! the graph holds the peak of its scratch, and not the sum (M2).

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::ALIGN;

/// One allocation of a run, at its place among the run's allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) bytes: usize,
    /// The place of the first allocation that may have its memory: the first one after its last
    /// handle was dropped.
    pub(crate) until: usize,
}

/// What is never dropped in its run.
pub(crate) const FOR_GOOD: usize = usize::MAX;

/// Where an allocation lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// By number.
    pub(crate) page: usize,
    /// In bytes, from the beginning of the page.
    pub(crate) start: usize,
}

/// Where the allocations of a recording live. No two that are there at once share a byte.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The bytes of each page.
    pub(crate) pages: Vec<usize>,
    /// By the allocations' places.
    pub(crate) places: Vec<Place>,
}

/// Up to so many allocations all orders are tried: a try costs their square.
const FEW: usize = 1024;

/// How often an order is tried, with what reached highest put first; and how much that may cost: some
/// ten milliseconds.
const ROUNDS: usize = 32;
const WORK: usize = 1 << 22;

impl Plan {
    /// Plans for allocations with these lives. `parts`: two that are there at once may share a page.
    ///
    /// Pages that serve one allocation after the other cost the driver's memory nothing new, so they
    /// are taken if they need at most an eighth more than was there at once. Else all live in one
    /// page, packed as well as the best of some orders packs them.
    pub(crate) fn new(lives: &[Life], parts: bool) -> Self {
        let enough = peak(lives);
        let enough = enough.saturating_add(enough / 8);
        let mut best = Self::whole_pages_in_turn(lives, true);
        if best.bytes() > enough {
            best = best.or(Self::whole_pages_in_turn(lives, false));
        }
        let few = lives.len() <= FEW;
        if best.bytes() > enough && few {
            best = best.or(Self::whole_pages_by_size(lives));
        }
        if !parts {
            return best;
        }
        for fit in [Fit::First, Fit::Tightest] {
            if best.bytes() > enough {
                best = best.or(Self::packed_in_turn(lives, fit));
            }
        }
        let square = lives.len().saturating_mul(lives.len()).max(1);
        let rounds = (WORK / square).clamp(1, ROUNDS);
        for order in [Order::Size, Order::Area, Order::Stay] {
            let mut order = order.of(lives);
            for round in 0..rounds {
                if best.bytes() <= enough || !few {
                    return best;
                }
                let packed = Self::packed(lives, &order);
                packed.raise(lives, &mut order);
                // And another one, or it would come back to where it was.
                if let Some(first) = order.get_mut(..=round % lives.len()) {
                    first.rotate_right(1);
                }
                best = best.or(packed);
            }
        }
        best
    }

    /// Puts what reaches to the end of its page first, for the next try: there it finds room lower.
    fn raise(&self, lives: &[Life], order: &mut [usize]) {
        let is_top = |at: usize| {
            let (Some(place), Some(life)) = (self.places.get(at), lives.get(at)) else {
                return false;
            };
            let end = place.start.saturating_add(life.bytes);
            self.pages.get(place.page) == Some(&end)
        };
        order.sort_by_key(|&at| !is_top(at));
    }

    fn bytes(&self) -> usize {
        self.pages
            .iter()
            .fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The one that needs less.
    fn or(self, other: Self) -> Self {
        if other.bytes() < self.bytes() {
            other
        } else {
            self
        }
    }

    /// Whole pages, each taken when an allocation comes: the smallest that is free and fits, or the
    /// largest that is free, which then must be larger, or a new one.
    ///
    /// `snug`: what is never dropped may outlive the window, and then keeps all of its page, so it
    /// takes none that is more than a quarter too large.
    fn whole_pages_in_turn(lives: &[Life], snug: bool) -> Self {
        let mut plan = Self::default();
        let mut free: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut taken: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (now, life) in lives.iter().enumerate() {
            let later = taken.split_off(&now.saturating_add(1));
            for page in std::mem::replace(&mut taken, later).into_values().flatten() {
                let bytes = plan.pages.get(page).copied().unwrap_or(0);
                free.entry(bytes).or_default().push(page);
            }
            let most = match life.until {
                FOR_GOOD if snug => life.bytes.saturating_add(life.bytes / 4),
                _ => usize::MAX,
            };
            let size = match free.range(life.bytes..=most).next() {
                Some((&fits, _)) => Some(fits),
                None => free.range(..life.bytes).next_back().map(|(&size, _)| size),
            };
            let page = size.and_then(|size| {
                let pages = free.get_mut(&size)?;
                let page = pages.pop();
                if pages.is_empty() {
                    free.remove(&size);
                }
                page
            });
            let page = page.unwrap_or(plan.pages.len());
            match plan.pages.get_mut(page) {
                Some(bytes) => *bytes = life.bytes.max(*bytes),
                None => plan.pages.push(life.bytes),
            }
            taken.entry(life.until).or_default().push(page);
            plan.places.push(Place { page, start: 0 });
        }
        plan
    }

    /// Whole pages, the largest first: each serves what is no larger, when it is free.
    fn whole_pages_by_size(lives: &[Life]) -> Self {
        let mut plan = Self {
            pages: Vec::new(),
            places: vec![Place::default(); lives.len()],
        };
        // When each page is taken: from an allocation until another.
        let mut taken: Vec<BTreeMap<usize, usize>> = Vec::new();
        for at in by_key(lives, |_, life| life.bytes) {
            let Some(life) = lives.get(at) else { continue };
            // No two ends lie behind a start that is before `until`, so the last one tells.
            let is_free = |taken: &BTreeMap<usize, usize>| {
                let before = taken.range(..life.until).next_back();
                before.is_none_or(|(_, &until)| until <= at)
            };
            // The smallest is the newest.
            let page = taken.iter().rposition(is_free).unwrap_or(taken.len());
            if page == taken.len() {
                taken.push(BTreeMap::new());
                plan.pages.push(life.bytes);
            }
            if let Some(taken) = taken.get_mut(page) {
                taken.insert(at, life.until);
            }
            if let Some(place) = plan.places.get_mut(at) {
                place.page = page;
            }
        }
        plan
    }

    /// One page, into which the allocations are put as they come.
    fn packed_in_turn(lives: &[Life], fit: Fit) -> Self {
        let mut packing = Packing::new(lives);
        for at in 0..lives.len() {
            // Nothing that comes now was there before.
            packing.put.retain(|put| put.there.end > at);
            packing.put(at, fit);
        }
        packing.plan
    }

    /// One page, into which the allocations are put in the given order.
    fn packed(lives: &[Life], order: &[usize]) -> Self {
        let mut packing = Packing::new(lives);
        for &at in order {
            packing.put(at, Fit::First);
        }
        packing.plan
    }
}

/// One page that is being packed.
struct Packing<'l> {
    lives: &'l [Life],
    plan: Plan,
    /// What was put there, by its start.
    put: Vec<Put>,
}

struct Put {
    bytes: Range<usize>,
    /// From which allocation until which.
    there: Range<usize>,
}

impl<'l> Packing<'l> {
    fn new(lives: &'l [Life]) -> Self {
        let plan = Plan {
            pages: vec![0],
            places: vec![Place::default(); lives.len()],
        };
        let put = Vec::new();
        Self { lives, plan, put }
    }

    /// Puts the allocation at a place beside those that are there at the same time.
    fn put(&mut self, at: usize, fit: Fit) {
        let Some(life) = self.lives.get(at) else {
            return;
        };
        let there = at..life.until;
        let beside = self.put.iter().filter(|put| {
            let other = &put.there;
            other.start < there.end && there.start < other.end
        });
        let start = fit.start(life.bytes, beside.map(|put| &put.bytes));
        let bytes = start..start.saturating_add(life.bytes);
        if let Some(page) = self.plan.pages.first_mut() {
            *page = bytes.end.max(*page);
        }
        if let Some(place) = self.plan.places.get_mut(at) {
            place.start = start;
        }
        let here = self.put.partition_point(|put| put.bytes.start <= start);
        self.put.insert(here, Put { bytes, there });
    }
}

/// The most bytes that are there at once: no plan needs less.
fn peak(lives: &[Life]) -> usize {
    let (mut now, mut most) = (0usize, 0);
    let mut goes: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, life) in lives.iter().enumerate() {
        let later = goes.split_off(&at.saturating_add(1));
        for bytes in std::mem::replace(&mut goes, later).into_values() {
            now = now.saturating_sub(bytes);
        }
        now = now.saturating_add(life.bytes);
        most = now.max(most);
        let goes = goes.entry(life.until).or_default();
        *goes = goes.saturating_add(life.bytes);
    }
    most
}

/// In which order allocations are put into one page.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// The largest first.
    Size,
    /// What stays longest first.
    Stay,
    /// What takes most first: bytes, times how long.
    Area,
}

impl Order {
    fn of(self, lives: &[Life]) -> Vec<usize> {
        let stay = |at: usize, life: &Life| life.until.min(lives.len()).saturating_sub(at);
        match self {
            Self::Size => by_key(lives, |at, life| (life.bytes, stay(at, life))),
            Self::Stay => by_key(lives, |at, life| (stay(at, life), life.bytes)),
            Self::Area => by_key(lives, |at, life| life.bytes.saturating_mul(stay(at, life))),
        }
    }
}

/// The places of the allocations, by falling keys.
fn by_key<K: Ord>(lives: &[Life], key: impl Fn(usize, &Life) -> K) -> Vec<usize> {
    let mut order: Vec<_> = lives.iter().enumerate().collect();
    order.sort_by_key(|&(at, life)| std::cmp::Reverse(key(at, life)));
    order.into_iter().map(|(at, _)| at).collect()
}

/// Which gap an allocation gets.
#[derive(Debug, Clone, Copy)]
enum Fit {
    First,
    Tightest,
}

impl Fit {
    /// Where `bytes` bytes start between those that are there at the same time, by their start.
    fn start<'p>(self, bytes: usize, beside: impl Iterator<Item = &'p Range<usize>>) -> usize {
        let mut best: Option<(usize, usize)> = None;
        let mut end = 0usize;
        for other in beside {
            let left = other.start.checked_sub(end.saturating_add(bytes));
            if let Some(left) = left
                && best.is_none_or(|(least, _)| left < least)
            {
                best = Some((left, end));
                if matches!(self, Self::First) {
                    break;
                }
            }
            end = end.max(other.end.next_multiple_of(ALIGN));
        }
        best.map_or(end, |(_, start)| start)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::{FOR_GOOD, Life, Plan, peak};

    /// Lives by their bytes, in units of 16, and how many allocations long they stay; a stay of
    /// `FOR_GOOD` is one.
    fn lives(shape: &[(usize, usize)]) -> Vec<Life> {
        let life = |(at, &(units, stay)): (usize, &(usize, usize))| Life {
            bytes: units * 16,
            until: if stay == FOR_GOOD { stay } else { at + stay },
        };
        shape.iter().enumerate().map(life).collect()
    }

    fn shapes(most: usize) -> impl Strategy<Value = Vec<Life>> {
        let stay = prop_oneof![4 => 1usize..8, 1 => Just(FOR_GOOD)];
        vec((1usize..12, stay), 1..most).prop_map(|shape| lives(&shape))
    }

    /// Every allocation lies in its page, at an aligned start, and shares no byte with one that is
    /// there at the same time.
    #[track_caller]
    fn assert_sound(plan: &Plan, lives: &[Life]) {
        assert_eq!(plan.places.len(), lives.len());
        for (at, (life, place)) in lives.iter().zip(&plan.places).enumerate() {
            let end = place.start + life.bytes;
            assert!(end <= plan.pages[place.page], "{plan:?} for {lives:?}");
            assert_eq!(place.start % 16, 0, "{plan:?} for {lives:?}");
            for (before, other) in lives[..at].iter().zip(&plan.places) {
                let apart = before.until <= at
                    || other.page != place.page
                    || other.start + before.bytes <= place.start
                    || end <= other.start;
                assert!(apart, "{plan:?} for {lives:?}");
            }
        }
    }

    /// The least that one page needs: the best of all orders.
    fn least(lives: &[Life]) -> usize {
        fn put(lives: &[Life], placed: &mut Vec<(usize, usize)>, best: &mut usize) {
            let high = placed.iter().map(|&(at, start)| start + lives[at].bytes);
            let high = high.max().unwrap_or(0);
            if placed.len() == lives.len() {
                *best = high.min(*best);
            }
            if high >= *best {
                return;
            }
            for at in 0..lives.len() {
                if placed.iter().any(|&(other, _)| other == at) {
                    continue;
                }
                let beside = placed
                    .iter()
                    .filter(|&&(other, _)| lives[other].until > at && lives[at].until > other);
                let mut ranges: Vec<_> = beside
                    .map(|&(other, start)| (start, start + lives[other].bytes))
                    .collect();
                ranges.sort_unstable();
                let start = ranges.iter().fold(0, |low, &(start, end)| {
                    if low + lives[at].bytes <= start {
                        low
                    } else {
                        low.max(end)
                    }
                });
                placed.push((at, start));
                put(lives, placed, best);
                placed.pop();
            }
        }
        let mut best = usize::MAX;
        put(lives, &mut Vec::new(), &mut best);
        best
    }

    /// Where not all orders are tried.
    #[test]
    fn many_allocations_are_planned_for_as_well() {
        for count in [300, 1500] {
            // Sizes and stays that look random, and are the same each time.
            let shape = (0..count).map(|at: usize| (1 + at * 7919 % 997, 1 + at * 6101 % 101));
            let lives = lives(&shape.collect::<Vec<_>>());
            let plan = Plan::new(&lives, true);
            assert_sound(&plan, &lives);
            let (needed, peak) = (plan.bytes(), peak(&lives));
            assert!(needed * 4 <= peak * 5, "{needed} for {peak}");
        }
    }

    /// The usual case: what goes in turn gets one page, and none is parted.
    #[test]
    fn what_is_not_there_at_once_gets_whole_pages() {
        let plan = Plan::new(&lives(&[(2, 1), (4, 1), (3, 1), (1, 2), (4, 1)]), true);
        assert_eq!(plan.pages, [64, 16]);
        assert!(plan.places.iter().all(|place| place.start == 0), "{plan:?}");
    }

    /// Only where the backend can part memory.
    #[test]
    fn two_that_are_there_at_once_share_a_page_where_they_may() {
        let lives = lives(&[(8, 1), (4, FOR_GOOD), (4, FOR_GOOD)]);
        assert_eq!(Plan::new(&lives, true).pages, [128]);
        assert_eq!(Plan::new(&lives, false).pages, [128, 64]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// M2.
        #[test]
        fn no_two_that_are_there_at_once_share_a_byte(lives in shapes(60), parts: bool) {
            assert_sound(&Plan::new(&lives, parts), &lives);
        }

        /// M2: the peak, and at most a quarter more.
        #[test]
        fn a_plan_needs_little_more_than_was_there_at_once(lives in shapes(60)) {
            let (needed, peak) = (Plan::new(&lives, true).bytes(), peak(&lives));
            prop_assert!(peak <= needed && needed * 4 <= peak * 5, "{needed} for {peak}: {lives:?}");
        }

        #[test]
        fn a_plan_is_nearly_the_best_there_is(lives in shapes(7)) {
            let (needed, least) = (Plan::new(&lives, true).bytes(), least(&lives));
            prop_assert!(needed * 8 <= least * 9, "{needed}, and not {least}: {lives:?}");
        }
    }
}
