//! How much of a page its blocks cover.

use std::collections::BTreeMap;
use std::ops::Range;

/// Counts the bytes that at least one of some ranges covers: blocks that had the same bytes one after
/// the other hold them once (M7).
#[derive(Debug, Default)]
pub(crate) struct Cover {
    /// From each of these to the next one the same number of ranges covers every byte.
    from: BTreeMap<usize, usize>,
}

impl Cover {
    /// Adds a range. Says how many bytes are newly covered.
    pub(crate) fn add(&mut self, range: Range<usize>) -> usize {
        self.count(range, |ranges| {
            *ranges = ranges.saturating_add(1);
            *ranges == 1
        })
    }

    /// Takes away a range that was added. Says how many bytes are covered no more.
    pub(crate) fn remove(&mut self, range: Range<usize>) -> usize {
        self.count(range, |ranges| {
            *ranges = ranges.saturating_sub(1);
            *ranges == 0
        })
    }

    /// Changes how many ranges cover each byte of `range`. The sum of the bytes that `change` says
    /// yes of.
    fn count(&mut self, range: Range<usize>, change: impl Fn(&mut usize) -> bool) -> usize {
        self.part(range.start);
        self.part(range.end);
        let mut sum = 0usize;
        let mut end = range.end;
        for (&start, ranges) in self.from.range_mut(range).rev() {
            if change(ranges) {
                sum = sum.saturating_add(end.saturating_sub(start));
            }
            end = start;
        }
        sum
    }

    fn part(&mut self, at: usize) {
        let before = self.from.range(..=at).next_back();
        let ranges = before.map_or(0, |(_, &ranges)| ranges);
        self.from.entry(at).or_insert(ranges);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Cover;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// M7: against bytes that are counted one by one.
        #[test]
        fn a_cover_counts_each_byte_once(
            ranges in proptest::collection::vec((0usize..20, 0usize..20), 1..20)
        ) {
            let mut cover = Cover::default();
            let mut bytes = [0usize; 40];
            let mut sum = 0;
            for &(start, len) in &ranges {
                sum += cover.add(start..start + len);
                bytes[start..start + len].iter_mut().for_each(|byte| *byte += 1);
                prop_assert_eq!(sum, bytes.iter().filter(|&&byte| byte > 0).count());
            }
            for (start, len) in ranges {
                sum -= cover.remove(start..start + len);
                bytes[start..start + len].iter_mut().for_each(|byte| *byte -= 1);
                prop_assert_eq!(sum, bytes.iter().filter(|&&byte| byte > 0).count());
            }
            prop_assert_eq!(sum, 0);
        }
    }
}
