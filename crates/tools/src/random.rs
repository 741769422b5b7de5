//! Random numbers that depend only on a seed, on every machine.

/// SplitMix64: every seed is a good one.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Returns a number from `low` to `high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Returns `width` random bits, at most 128.
    pub fn bits(&mut self, width: u32) -> u128 {
        let all = u128::from(self.next()) << 64 | u128::from(self.next());
        if width == 0 { 0 } else { all >> (128 - width) }
    }

    /// True in `percent` of 100 calls on average.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns the first part of a pair; the second part is its weight.
    pub fn weighted<T: Copy>(&mut self, from: &[(T, usize)]) -> T {
        let mut left = self.below(from.iter().map(|(_, weight)| weight).sum());
        for (what, weight) in from {
            if left < *weight {
                return *what;
            }
            left -= weight;
        }
        unreachable!("it is below the sum of the weights")
    }

    /// Puts these into a random order.
    pub fn shuffle<T>(&mut self, what: &mut [T]) {
        for i in (1..what.len()).rev() {
            what.swap(i, self.below(i + 1));
        }
    }

    /// Returns `n` different numbers of `bits` bits in random order. `bits` is even, and there are enough of them.
    pub fn distinct(&mut self, n: usize, bits: u32) -> Vec<u64> {
        let permutation = Permutation::new(self.next(), bits);
        (0..n as u64).map(|i| permutation.apply(i)).collect()
    }
}

/// SplitMix64's scrambler: a bijection.
pub(crate) fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A bijection of the numbers of `2 * half` bits that looks random: a Feistel network. It yields any number of distinct
/// random numbers one by one, without memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    keys: [u64; 4],
    half: u32,
}

impl Permutation {
    /// Creates a permutation of numbers of `bits` bits, an even number up to 64.
    pub fn new(seed: u64, bits: u32) -> Permutation {
        let mut random = Random::new(seed);
        Permutation { keys: std::array::from_fn(|_| random.next()), half: bits / 2 }
    }

    pub fn apply(&self, x: u64) -> u64 {
        let mask = (1 << self.half) - 1;
        let (mut high, mut low) = (x >> self.half & mask, x & mask);
        for key in self.keys {
            (high, low) = (low, high ^ mix(low ^ key) & mask);
        }
        high << self.half | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_give_each_number_once() {
        for seed in 0..4 {
            let permutation = Permutation::new(seed, 12);
            let mut found: Vec<u64> = (0..1 << 12).map(|x| permutation.apply(x)).collect();
            assert_ne!(found, (0..1 << 12).collect::<Vec<u64>>());
            found.sort_unstable();
            assert_eq!(found, (0..1 << 12).collect::<Vec<u64>>());
        }
    }
}
