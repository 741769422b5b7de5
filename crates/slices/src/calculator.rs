//! Worst-case queueing delays of slices that share a link with non-preemptive strict priorities, after H. Harkous's doctoral thesis
//! (Technical University of Munich, 2022), equations 6.1 to 6.4, and what follows from them in the other direction.
//!
//! A slice may send a burst at once and after that its rate. The slices of a priority wait until the bursts of all slices of the same
//! and higher priorities have been sent; those of one priority are sent with the capacity that the rates of higher priorities leave.
//! The packet of lower priority that is just being sent, and the time of the own packet, are not part of the formulas.
//!
//! Rates and capacities are in bits per second, bursts in bits, times in seconds.

/// What a slice may send, and the delay that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Its rate.
    pub rate: f64,
    /// Its burst: the rate times the largest delay of its virtual queue.
    pub burst: f64,
    /// The largest delay that it tolerates.
    pub bound: f64,
}

/// The largest priority.
pub const PRIORITY_MAX: u8 = 7;
/// The number of slices up to which [`best_priorities`] tries all priorities. There are 47,293 for seven.
pub const ALL_MAX: usize = 7;
/// The number of slices up to which it searches at all: it tries 2^15 priorities for sixteen.
pub const SEARCHED_MAX: usize = 16;
/// Relative precision of capacities.
const PRECISION: f64 = 1e-12;

/// The worst-case delay of each slice (equation 6.3), by the priority of each: the largest number is served first. It is infinite if
/// higher priorities leave no capacity.
pub fn delays(capacity: f64, demands: &[Demand], priorities: &[u8]) -> Vec<f64> {
    // Delay and rates of the priorities from the highest to the present one.
    let (mut delay, mut higher) = (0.0, 0.0);
    let mut of = [0.0; PRIORITY_MAX as usize + 1];
    for priority in (0..=PRIORITY_MAX).rev() {
        let here =
            || demands.iter().zip(priorities).filter(|(_, own)| **own == priority).map(|(demand, _)| demand);
        let burst: f64 = here().map(|demand| demand.burst).sum();
        if burst > 0.0 {
            // Equations 6.2 and 6.4.
            let residual: f64 = capacity - higher;
            delay += if residual > 0.0 { burst / residual } else { f64::INFINITY };
        }
        higher += here().map(|demand| demand.rate).sum::<f64>();
        of[usize::from(priority)] = delay;
    }
    priorities.iter().map(|priority| of[usize::from(*priority)]).collect()
}

/// True if no delay is above its bound, and the rates fit into the capacity. A delay that equals its bound is not above it.
pub fn is_enough(capacity: f64, demands: &[Demand], priorities: &[u8]) -> bool {
    let rates: f64 = demands.iter().map(|demand| demand.rate).sum();
    let fits = |limit: f64, value: f64| value <= limit * (1.0 + 1e-9);
    let delays = delays(capacity, demands, priorities);
    fits(capacity, rates) && demands.iter().zip(delays).all(|(demand, delay)| fits(demand.bound, delay))
}

/// The least capacity with which [`is_enough`] is true: all rates together, or more if delays need it.
pub fn least_capacity(demands: &[Demand], priorities: &[u8]) -> f64 {
    let mut high: f64 = demands.iter().map(|demand| demand.rate).sum::<f64>().max(1.0);
    if is_enough(high, demands, priorities) {
        return high;
    }
    let mut low = high;
    // Delays decrease with the capacity, and with enough of it every one is below any bound.
    while !is_enough(high, demands, priorities) {
        low = high;
        high *= 2.0;
    }
    while high - low > high * PRECISION {
        let middle = low.midpoint(high);
        if is_enough(middle, demands, priorities) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The priorities that need the least capacity, and that capacity. Of equal ones it takes those with the fewest different priorities.
///
/// Up to [`ALL_MAX`] slices it tries all. Up to [`SEARCHED_MAX`] slices, it tries those in which no slice has a higher priority than
/// one with a smaller bound. `None` for no slice, or more slices.
pub fn best_priorities(demands: &[Demand]) -> Option<(Vec<u8>, f64)> {
    if demands.is_empty() || demands.len() > SEARCHED_MAX {
        return None;
    }
    let mut search = Search { demands, best: None, levels: 0 };
    if demands.len() <= ALL_MAX {
        search.all(&mut vec![0; demands.len()], 0);
    } else {
        search.by_bound();
    }
    search.best
}

struct Search<'a> {
    demands: &'a [Demand],
    best: Option<(Vec<u8>, f64)>,
    /// Number of different priorities of the best.
    levels: u8,
}

impl Search<'_> {
    /// Tries all priorities of the slices from `at` on.
    fn all(&mut self, ranks: &mut Vec<u8>, at: usize) {
        if at < ranks.len() {
            for rank in 0..ranks.len() as u8 {
                ranks[at] = rank;
                self.all(ranks, at + 1);
            }
            return;
        }
        // Ranks without gaps: others have the same order as some of these.
        let levels = ranks.iter().max().map_or(0, |most| most + 1);
        if (0..levels).all(|rank| ranks.contains(&rank)) {
            self.consider(ranks, levels);
        }
    }

    /// Tries all ways to cut the slices, in the order of their bounds, into groups of one priority.
    fn by_bound(&mut self) {
        let mut order: Vec<usize> = (0..self.demands.len()).collect();
        order.sort_by(|a, b| self.demands[*a].bound.total_cmp(&self.demands[*b].bound));
        for cuts in 0..1u32 << (order.len() - 1) {
            let levels = cuts.count_ones() as u8 + 1;
            if levels > PRIORITY_MAX + 1 {
                continue;
            }
            let mut ranks = vec![0; order.len()];
            let mut rank = 0;
            for (place, slice) in order.iter().enumerate() {
                ranks[*slice] = rank;
                rank += (cuts >> place & 1) as u8;
            }
            self.consider(&ranks, levels);
        }
    }

    /// Keeps priorities, given as ranks from 0 for the highest, if they are better than the best.
    fn consider(&mut self, ranks: &[u8], levels: u8) {
        let priorities: Vec<u8> = ranks.iter().map(|rank| PRIORITY_MAX - rank).collect();
        if let Some((_, best)) = &self.best {
            // Most are not, which one evaluation shows: fewer priorities may need the same, more must need less.
            let needed = if levels < self.levels { *best } else { best * (1.0 - 1e-6) };
            if !is_enough(needed, self.demands, &priorities) {
                return;
            }
        }
        let capacity = least_capacity(self.demands, &priorities);
        (self.best, self.levels) = (Some((priorities, capacity)), levels);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slices of the thesis: DC, Enterprise, Peering (tables 6.2 and 6.3, BMv2), with their bounds of the delay.
    fn slices() -> [Demand; 3] {
        [(48e6, 0.96e6, 0.005), (12e6, 0.12e6, 0.010), (240e6, 7.2e6, 0.030)]
            .map(|(rate, burst, bound)| Demand { rate, burst, bound })
    }

    #[test]
    fn the_priorities_of_the_thesis() {
        // Table 6.4, and the least capacities for it: DC decides in A, Enterprise in B, Peering in C and D.
        for (priorities, mbit) in [([7, 7, 7], 1656), ([7, 6, 6], 871), ([7, 7, 6], 330), ([7, 6, 5], 331)] {
            let found = least_capacity(&slices(), &priorities) / 1e6;
            assert_eq!((found - 1e-6).ceil() as u32, mbit, "{priorities:?}: {found}");
            // With that the bounds hold, and with a Mbit/s less they do not.
            assert!(is_enough(found * 1e6, &slices(), &priorities));
            assert!(!is_enough(found * 1e6 - 1e6, &slices(), &priorities));
        }
    }

    #[test]
    fn delays_by_hand() {
        let close = |found: Vec<f64>, expected: [f64; 3]| {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        };
        // All at once: 8.28 Mbit through 1 Gbit/s.
        close(delays(1e9, &slices(), &[3, 3, 3]), [0.00828; 3]);
        // 0.96 / 1000, then 0.12 / 952, then 7.2 / 940.
        let (dc, enterprise) = (0.00096, 0.00096 + 0.12 / 952.0);
        close(delays(1e9, &slices(), &[7, 6, 0]), [dc, enterprise, enterprise + 7.2 / 940.0]);
        // A capacity that higher priorities use up.
        assert_eq!(delays(60e6, &slices(), &[7, 6, 5])[2], f64::INFINITY);
    }

    #[test]
    fn the_best_priorities() {
        let (priorities, capacity) = best_priorities(&slices()).unwrap();
        assert_eq!(priorities, [7, 7, 6]);
        assert_eq!((capacity / 1e6).ceil() as u32, 330);
        // A slice whose rate alone needs the capacity.
        let (priorities, capacity) =
            best_priorities(&[Demand { rate: 1e9, burst: 1e3, bound: 1.0 }; 2]).unwrap();
        assert_eq!((priorities.as_slice(), capacity), ([7, 7].as_slice(), 2e9));
        assert_eq!(best_priorities(&[]), None);
        assert_eq!(best_priorities(&[slices()[0]; SEARCHED_MAX + 1]), None);
    }

    /// Both kinds of search agree where a slice with a smaller bound never suffers from a higher priority.
    #[test]
    fn searches_agree() {
        let demands: Vec<Demand> = (1..=6)
            .map(|i| Demand { rate: 1e6 * f64::from(i), burst: 1e5, bound: 0.002 * f64::from(i * i) })
            .collect();
        let (_, all) = best_priorities(&demands).unwrap();
        let mut search = Search { demands: &demands, best: None, levels: 0 };
        search.by_bound();
        let (_, by_bound) = search.best.unwrap();
        assert!((all - by_bound).abs() < all * 1e-6, "{all} {by_bound}");
        // Eight priorities are all that there are.
        let many: Vec<Demand> =
            (1..=12).map(|i| Demand { rate: 1e6, burst: 1e5, bound: 0.002 * f64::from(i) }).collect();
        let (priorities, capacity) = best_priorities(&many).unwrap();
        assert!(is_enough(capacity, &many, &priorities) && priorities.iter().all(|priority| *priority <= 7));
    }
}
