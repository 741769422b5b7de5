//! Assigns slots of a pool to back ends.
//!
//! Rendezvous hashing: for each slot, every back end draws as many numbers as its weight, and the largest wins. The
//! draws depend only on the slot and the back end's name. So two gateways with the same back ends agree; a removed back
//! end loses its slots to the others, and no other slot changes; if it returns, it gets exactly the same slots; and
//! more weight only takes slots from others.

/// Returns the winner of each slot as an index of `back_ends`, which has names and weights. `None` if all weights are
/// 0.
pub fn assign(slots: u32, back_ends: &[(&str, u32)]) -> Vec<Option<usize>> {
    let seeds: Vec<u64> = back_ends.iter().map(|(name, _)| fnv(name.as_bytes())).collect();
    let winner = |slot: u32| {
        let draws = back_ends.iter().enumerate().flat_map(|(i, (_, weight))| {
            let seed = mix(seeds[i] ^ mix(u64::from(slot)));
            (0..*weight).map(move |n| (mix(seed ^ mix(u64::from(n) << 32)), i))
        });
        // The name decides between equal draws, so that the order in the file does not.
        draws.max_by_key(|(draw, i)| (*draw, back_ends[*i].0)).map(|(_, i)| i)
    };
    (0..slots).map(winner).collect()
}

/// The finalizer of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the owner of each slot by name.
    fn names<'a>(slots: u32, back_ends: &[(&'a str, u32)]) -> Vec<Option<&'a str>> {
        assign(slots, back_ends).into_iter().map(|i| i.map(|i| back_ends[i].0)).collect()
    }

    #[test]
    fn shares_follow_weights() {
        let slots = 1 << 14;
        let found = names(slots, &[("a", 1), ("b", 2), ("c", 5), ("d", 0)]);
        for (name, weight) in [("a", 1.0), ("b", 2.0), ("c", 5.0), ("d", 0.0)] {
            let share = found.iter().filter(|n| **n == Some(name)).count() as f64 / f64::from(slots);
            // Five standard deviations.
            assert!((share - weight / 8.0).abs() < 5.0 * (0.25 / f64::from(slots)).sqrt(), "{name}: {share}");
        }
        assert_eq!(names(2, &[("a", 0)]), [None, None]);
        assert_eq!(names(1, &[]), [None]);
    }

    /// Gateways of all versions and machines must agree: these never change.
    #[test]
    fn the_mapping_is_fixed() {
        let found: String = names(24, &[("a", 1), ("b", 1), ("c", 2)]).into_iter().flatten().collect();
        assert_eq!(found, "bcccaabaacacaccccbabbaab");
    }

    proptest! {
        #[test]
        fn only_what_must_moves(
            weights in prop::collection::vec(0u32..5, 1..8), dead: prop::sample::Index, more in 1u32..4
        ) {
            let names_of: Vec<String> = (0..weights.len()).map(|i| format!("web{i}")).collect();
            let mut set: Vec<(&str, u32)> =
                names_of.iter().map(String::as_str).zip(weights.iter().copied()).collect();
            let all = names(128, &set);
            let at = dead.index(set.len());
            let (gone, weight) = set[at];
            set[at].1 = 0;
            for (before, after) in all.iter().zip(names(128, &set)) {
                prop_assert!(*before == after || *before == Some(gone), "{before:?} {after:?}");
            }
            // A removed back end is like a dead one.
            let mut without = set.clone();
            without.remove(at);
            prop_assert_eq!(names(128, &set), names(128, &without));
            set[at].1 = weight + more;
            for (before, after) in all.iter().zip(names(128, &set)) {
                prop_assert!(*before == after || after == Some(gone));
            }
            set[at].1 = weight;
            set.reverse();
            prop_assert_eq!(names(128, &set), all, "the order in the file does not count");
        }
    }
}
