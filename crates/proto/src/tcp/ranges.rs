//! Ranges received out of order: sorted, apart from each other, bounded in number.

use std::collections::VecDeque;

use super::segment::Range;

/// Most ranges kept: the holes of a window of 128 Ki segments with every second one lost. A
/// range beyond is refused, as Linux prunes its queue when memory runs out.
const MAX_RANGES: usize = 1 << 16;

/// A sorted set of ranges that neither touch nor overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges(VecDeque<Range>);

impl Ranges {
    /// Adds `range` (not empty) and gives the range that now holds it; `None` where the set is
    /// full.
    pub(super) fn insert(&mut self, range: Range) -> Option<Range> {
        // Those from `first` on end at or behind its start; those from `behind` on start past it.
        let first = self.0.partition_point(|r| r.end < range.start);
        let behind = self.0.partition_point(|r| r.start <= range.end);
        if first == behind {
            if self.0.len() >= MAX_RANGES {
                return None;
            }
            self.0.insert(first, range);
            return Some(range);
        }
        let merged = Range {
            start: range.start.min(self.0[first].start),
            end: range.end.max(self.0[behind - 1].end),
        };
        self.0[first] = merged;
        if behind - first > 1 {
            self.0.drain(first + 1..behind);
        }
        Some(merged)
    }

    /// Whether all of `range` is in one of the ranges.
    pub(super) fn holds(&self, range: Range) -> bool {
        let first = self.0.partition_point(|r| r.end < range.end);
        self.0.get(first).is_some_and(|r| r.start <= range.start)
    }

    /// Takes out what is contiguous with `next` and gives the number behind it.
    pub(super) fn take_from(&mut self, mut next: u64) -> u64 {
        while let Some(first) = self.0.front()
            && first.start <= next
        {
            next = next.max(first.end);
            self.0.pop_front();
        }
        next
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(parts in prop::collection::vec((0u64..60, 1u64..8), 0..40)) {
            let mut ranges = Ranges::default();
            let mut set = [false; 80];
            for (start, len) in parts {
                let range = Range { start, end: start + len };
                let inside = (start..start + len).all(|n| set[n as usize]);
                prop_assert_eq!(ranges.holds(range), inside);
                (start..start + len).for_each(|n| set[n as usize] = true);
                let merged = ranges.insert(range).unwrap();
                prop_assert!(merged.start <= start && start + len <= merged.end);
                prop_assert!((merged.start..merged.end).all(|n| set[n as usize]));
                prop_assert!(!set[merged.end as usize]);
            }
            let apart = ranges.0.iter().zip(ranges.0.iter().skip(1)).all(|(a, b)| a.end < b.start);
            prop_assert!(apart);
            let first_hole = set.iter().position(|&held| !held).unwrap() as u64;
            prop_assert_eq!(ranges.take_from(0), first_hole);
        }
    }
}
