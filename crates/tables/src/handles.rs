//! The free handles of members or groups.

use std::collections::BTreeMap;

/// The handles that are not in use, as ranges, so that the smallest one is found at once however high the others are.
pub(crate) struct FreeHandles {
    /// The last handle of each range, by its first one. Ranges do not touch.
    ranges: BTreeMap<u32, u32>,
}

impl FreeHandles {
    /// All handles.
    pub fn new() -> FreeHandles {
        FreeHandles { ranges: BTreeMap::from([(0, u32::MAX)]) }
    }

    /// Returns the smallest free handle: handles count from 0, and scripts rely on it.
    pub fn first(&self) -> u32 {
        *self.ranges.first_key_value().expect("there are more handles than objects").0
    }

    /// Marks a free handle as used.
    pub fn take(&mut self, handle: u32) {
        let (&first, &last) = self.ranges.range(..=handle).next_back().expect("the handle is free");
        debug_assert!(handle <= last, "{handle} is in use");
        self.ranges.remove(&first);
        if first < handle {
            self.ranges.insert(first, handle - 1);
        }
        if handle < last {
            self.ranges.insert(handle + 1, last);
        }
    }

    /// Marks a used handle as free.
    pub fn give(&mut self, handle: u32) {
        let after = handle.checked_add(1).and_then(|next| self.ranges.remove(&next));
        let last = after.unwrap_or(handle);
        match self.ranges.range_mut(..handle).next_back() {
            Some((_, before)) if *before + 1 == handle => *before = last,
            _ => drop(self.ranges.insert(handle, last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_smallest_free_handle_is_first() {
        let mut free = FreeHandles::new();
        for handle in [u32::MAX, 0, 2, 1_000_000] {
            free.take(handle);
        }
        assert_eq!(free.first(), 1);
        free.take(1);
        assert_eq!(free.first(), 3);
        for handle in [u32::MAX, 1, 0, 2, 1_000_000] {
            free.give(handle);
        }
        assert_eq!(free.ranges, BTreeMap::from([(0, u32::MAX)]));
    }

    /// After any changes, the ranges are what the used handles leave.
    #[test]
    fn ranges_are_what_used_handles_leave() {
        let (mut free, mut used) = (FreeHandles::new(), BTreeSet::new());
        let mut seed = 7u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let handle = (seed >> 33) as u32 % 12;
            match used.insert(handle) {
                true => free.take(handle),
                false => {
                    used.remove(&handle);
                    free.give(handle);
                }
            }
            assert_eq!(Some(free.first()), (0..).find(|handle| !used.contains(handle)));
            let all = free.ranges.iter().flat_map(|(first, last)| *first..=(*last).min(12));
            assert_eq!(all.collect::<Vec<_>>(), (0..=12).filter(|h| !used.contains(h)).collect::<Vec<_>>());
        }
    }
}
