//! Two-rate three-colour meters, RFC 2698, as in bmv2: two token buckets that fill with time, of which the peak bucket is
//! checked first.
//!
//! A bucket is one number that workers change by compare-and-swap: how many of all tokens generated since the switch
//! started are spent or were lost because the bucket was full. The bucket contains the generated tokens minus that number,
//! at most the burst.

use crate::apart::Apart;
use crate::cells::{CounterValue, StateError, zeroed};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Colour of a packet within both rates, and of every packet if no rates are set.
pub const GREEN: u64 = 0;
/// Colour of a packet above the committed rate.
pub const YELLOW: u64 = 1;
/// Colour of a packet above the peak rate.
pub const RED: u64 = 2;

/// One rate of a meter, in packets or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Tokens per microsecond: finite, not negative.
    pub per_us: f64,
    /// Maximum number of tokens in the bucket.
    pub burst: u64,
}

/// The rates of a meter: committed, then peak.
pub type Rates = [Rate; 2];

/// Words of a cell: a cache line.
const CELL_WORDS: usize = 8;
/// 0 if rates were never set; odd while they change.
const VERSION: usize = 0;
/// Words of a bucket: the rate, the burst, the number of spent tokens.
const BUCKETS: [usize; 2] = [1, 4];
/// Maximum count of tokens, so that sums do not overflow: at 10^5 per microsecond it lasts for more than a year.
const TOKENS_MAX: i64 = 1 << 62;

/// The cells of one instance.
pub(crate) struct Meters {
    cells: Apart<AtomicU64>,
    stride: u32,
    bytes: bool,
    /// Packets and bytes of each colour, a line for each cell. Counting starts with the first call of [`Self::counts`].
    colours: OnceLock<Apart<AtomicU64>>,
}

impl Meters {
    /// Creates `stride` cells; rows that are equal modulo `stride` share one.
    pub fn new(name: &str, stride: u32, bytes: bool) -> Result<Meters, StateError> {
        Ok(Meters {
            cells: zeroed(name, CELL_WORDS as u64 * u64::from(stride))?,
            stride,
            bytes,
            colours: OnceLock::new(),
        })
    }

    pub fn stride(&self) -> u32 {
        self.stride
    }

    fn cell(&self, index: u32) -> &[AtomicU64] {
        &self.cells[(index % self.stride) as usize * CELL_WORDS..][..CELL_WORDS]
    }

    /// Returns the rates of a cell; `None` if there are none, which is stored as NaN.
    fn rates_of(cell: &[AtomicU64]) -> Option<Rates> {
        loop {
            let version = cell[VERSION].load(Ordering::Acquire);
            if version == 0 {
                return None;
            }
            let rate = |at: usize| Rate {
                per_us: f64::from_bits(cell[at].load(Ordering::Relaxed)),
                burst: cell[at + 1].load(Ordering::Relaxed),
            };
            let rates = BUCKETS.map(rate);
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && cell[VERSION].load(Ordering::Relaxed) == version {
                return Some(rates).filter(|[committed, _]| !committed.per_us.is_nan());
            }
            std::hint::spin_loop();
        }
    }

    pub fn rates(&self, index: u32) -> Option<Rates> {
        Self::rates_of(self.cell(index))
    }

    /// Sets the rates, with full buckets, or removes them. Only one caller at a time.
    pub fn set_rates(&self, index: u32, rates: Option<Rates>) {
        let cell = self.cell(index);
        let version = cell[VERSION].load(Ordering::Relaxed);
        if version == 0 && rates.is_none() {
            // Memory that was never written stays uncommitted.
            return;
        }
        let rates = rates.unwrap_or([Rate { per_us: f64::NAN, burst: 0 }; 2]);
        cell[VERSION].store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (at, rate) in BUCKETS.into_iter().zip(rates) {
            cell[at].store(rate.per_us.to_bits(), Ordering::Relaxed);
            cell[at + 1].store(rate.burst, Ordering::Relaxed);
            // Less than any bucket's capacity: earlier tokens do not count, so the bucket is full.
            cell[at + 2].store(-TOKENS_MAX as u64, Ordering::Relaxed);
        }
        cell[VERSION].store(version + 2, Ordering::Release);
    }

    /// Returns the colour of a packet whose previous colour is `given` (green if none).
    pub fn execute(&self, index: u32, given: u64, now_us: u64, bytes: u32) -> u64 {
        if self.stride == 0 {
            return given;
        }
        let cell = self.cell(index);
        let colour = self.colour(cell, BUCKETS.map(|at| &cell[at + 2]), given, now_us, bytes);
        if let Some(colours) = self.colours.get() {
            let counts = &colours[(index % self.stride) as usize * CELL_WORDS..][..CELL_WORDS];
            let at = 2 * colour.min(RED) as usize;
            counts[at].fetch_add(1, Ordering::Relaxed);
            counts[at + 1].fetch_add(bytes.into(), Ordering::Relaxed);
        }
        colour
    }

    /// Packets and bytes of each colour in a cell, counted since the first call for any cell.
    pub fn counts(&self, name: &str, index: u32) -> Result<[CounterValue; 3], StateError> {
        if self.stride == 0 {
            return Ok([CounterValue::default(); 3]);
        }
        if self.colours.get().is_none() {
            let colours = zeroed(name, CELL_WORDS as u64 * u64::from(self.stride))?;
            // Another thread may have been faster.
            let _ = self.colours.set(colours);
        }
        let Some(colours) = self.colours.get() else { return Ok([CounterValue::default(); 3]) };
        let counts = &colours[(index % self.stride) as usize * CELL_WORDS..][..CELL_WORDS];
        Ok([GREEN, YELLOW, RED].map(|colour| {
            let at = 2 * colour as usize;
            let value = |at: usize| counts[at].load(Ordering::Relaxed);
            CounterValue { packets: value(at), bytes: value(at + 1) }
        }))
    }

    /// Sets the counts of a cell to 0.
    pub fn reset_counts(&self, index: u32) {
        if let Some(colours) = self.colours.get().filter(|_| self.stride > 0) {
            let counts = &colours[(index % self.stride) as usize * CELL_WORDS..][..CELL_WORDS];
            counts.iter().filter(|word| word.load(Ordering::Relaxed) != 0).for_each(|word| {
                word.store(0, Ordering::Relaxed);
            });
        }
    }

    /// Returns what [`Self::execute`] would return, without taking tokens.
    pub fn would_execute(&self, index: u32, given: u64, now_us: u64, bytes: u32) -> u64 {
        if self.stride == 0 {
            return given;
        }
        let cell = self.cell(index);
        let spent = BUCKETS.map(|at| AtomicU64::new(cell[at + 2].load(Ordering::Relaxed)));
        self.colour(cell, spent.each_ref(), given, now_us, bytes)
    }

    /// Takes tokens from the buckets; `spent` has their spent tokens.
    fn colour(&self, cell: &[AtomicU64], spent: [&AtomicU64; 2], given: u64, now_us: u64, bytes: u32) -> u64 {
        let Some([committed, peak]) = Self::rates_of(cell) else { return given };
        let tokens = if self.bytes { i64::from(bytes) } else { 1 };
        // RFC 2698, colour-aware: a red packet takes no tokens, a yellow one only peak tokens.
        if given >= RED || !take(spent[1], peak, tokens, now_us) {
            return RED;
        }
        if given == YELLOW || !take(spent[0], committed, tokens, now_us) {
            return YELLOW;
        }
        GREEN
    }
}

/// Takes tokens from a bucket if it has enough.
fn take(spent: &AtomicU64, rate: Rate, tokens: i64, now_us: u64) -> bool {
    // A bucket that fills within a microsecond does not fill faster at a higher rate.
    let per_us = rate.per_us.min(rate.burst as f64);
    // The conversion truncates, as in bmv2.
    let made = ((now_us as f64 * per_us) as i64).min(TOKENS_MAX);
    let burst = i64::try_from(rate.burst).unwrap_or(TOKENS_MAX).min(TOKENS_MAX);
    let taken = spent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |spent| {
        let spent = (spent as i64).max(made - burst);
        (made - spent >= tokens).then(|| (spent + tokens) as u64)
    });
    taken.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_counted_after_the_first_request() {
        let meters = Meters::new("m", 2, false).unwrap();
        let rate = |burst| Rate { per_us: 0.0, burst };
        meters.set_rates(1, Some([rate(2), rate(5)]));
        meters.execute(1, GREEN, 0, 60);
        assert_eq!(meters.counts("m", 1).unwrap(), [CounterValue::default(); 3]);
        (0..9).for_each(|_| {
            meters.execute(1, GREEN, 0, 60);
        });
        meters.execute(0, GREEN, 0, 60);
        let of = |packets| CounterValue { packets, bytes: 60 * packets };
        assert_eq!(meters.counts("m", 1).unwrap(), [of(1), of(3), of(5)]);
        assert_eq!(meters.counts("m", 0).unwrap(), [of(1), of(0), of(0)]);
        meters.reset_counts(1);
        assert_eq!(meters.counts("m", 1).unwrap(), [CounterValue::default(); 3]);
    }

    /// Buckets that are not refilled: every token goes to one packet of one of the threads.
    #[test]
    fn threads_share_the_tokens() {
        let meters = Meters::new("m", 1, false).unwrap();
        let rate = |burst| Rate { per_us: 0.0, burst };
        meters.set_rates(0, Some([rate(10_000), rate(30_000)]));
        let run = || {
            let mut colours = [0; 3];
            (0..40_000).for_each(|now| colours[meters.execute(0, GREEN, now, 60) as usize] += 1);
            colours
        };
        let [a, b] = std::thread::scope(|scope| {
            [scope.spawn(run), scope.spawn(run)].map(|thread| thread.join().unwrap())
        });
        let sums: Vec<u64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
        assert_eq!(sums, [10_000, 20_000, 50_000]);
    }
}
