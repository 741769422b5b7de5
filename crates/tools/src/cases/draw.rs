//! How often packets take each of several destinations.

use crate::random::Random;

/// How packets are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skew {
    /// Each destination is as likely as any other.
    Even,
    /// Zipf's law with exponent 1: the k-th most frequent destination is k times rarer than the first.
    Zipf,
}

/// Draws numbers below a bound.
pub(super) struct Draw {
    /// The sums of the weights up to each rank; empty if all are the same. Integers, so that all machines agree.
    sums: Vec<u64>,
    /// The number of each rank.
    order: Vec<u32>,
    n: usize,
}

impl Draw {
    /// Draws numbers below `n`, at least 1.
    pub fn new(skew: Skew, n: usize, random: &mut Random) -> Draw {
        if skew == Skew::Even {
            return Draw { sums: Vec::new(), order: Vec::new(), n };
        }
        let sums = (1..=n as u64).scan(0, |sum, rank| {
            *sum += (1 << 40) / rank;
            Some(*sum)
        });
        // Entries that are often hit are not neighbours.
        let mut order: Vec<u32> = (0..n as u32).collect();
        random.shuffle(&mut order);
        Draw { sums: sums.collect(), order, n }
    }

    /// Returns the next number.
    pub fn next(&self, random: &mut Random) -> usize {
        match self.sums.last() {
            None => random.below(self.n),
            Some(sum) => {
                let at = random.below(*sum as usize) as u64;
                self.order[self.sums.partition_point(|sum| *sum <= at)] as usize
            }
        }
    }
}

#[test]
fn zipf_prefers_few() {
    let mut random = Random::new(1);
    let draw = Draw::new(Skew::Zipf, 1000, &mut random);
    let mut counts = vec![0; 1000];
    for _ in 0..100_000 {
        counts[draw.next(&mut random)] += 1;
    }
    counts.sort_unstable();
    // The harmonic number of 1000 is 7.485.
    assert!((12_500..14_200).contains(&counts[999]), "{}", counts[999]);
    assert!((6_000..7_400).contains(&counts[998]), "{}", counts[998]);
}
