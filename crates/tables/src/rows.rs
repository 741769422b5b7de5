//! Rows: actions with their data, in the layout that generated code reads.
//!
//! A row that readers may see is never rewritten; a change takes another row. The exception is row 0, of which only one
//! word matters.

use crate::by_slot::BySlot;
use crate::grace::{Pool, Returns, wait};
use crate::memory::{Ahead, Region};
use crate::parted::Parted;
use crate::{Action, ActionSpec, TableError};
use num_bigint::BigUint;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of slots: handles have 24 bits for them.
pub(crate) const SLOTS_MAX: u32 = 1 << 24;

/// With a row per entry: number of rows that an entry may have in its life, one at a time. Direct counters rely on this
/// number (`p4jet_externs::DIRECT_BANKS`).
pub(crate) const BANKS: u32 = 8;

/// Number of rows for default actions in tables with a row per entry.
const DEFAULT_ROWS: u32 = 64;

/// Rows in use that take at least this many bytes are in large pages.
const HUGE_BYTES_MIN: usize = 1 << 20;

pub(crate) struct Rows {
    region: Arc<Region>,
    row_words: usize,
    huge: Option<Ahead>,
    kind: Kind,
}

enum Kind {
    Shared { pool: Pool, by_content: Parted<u32>, seed: u64, users: BySlot<u32> },
    PerEntry { stride: u32, defaults: Pool, retired: HashSet<u32>, returns: Returns<u32> },
}

/// Returns the number of words of a row: action index, then its data.
pub(crate) fn row_words(actions: &[ActionSpec]) -> usize {
    let words = |params: &[u32]| params.iter().map(|width| width.div_ceil(64) as usize).sum::<usize>();
    1 + actions.iter().map(|action| words(&action.param_widths)).max().unwrap_or(0)
}

/// Returns the words of an action, which is one of these.
pub(crate) fn encode(actions: &[ActionSpec], action: &Action) -> Vec<u64> {
    let mut words = vec![u64::from(action.action)];
    for (value, width) in action.data.iter().zip(&actions[action.action as usize].param_widths) {
        let end = words.len() + width.div_ceil(64) as usize;
        words.extend(value.iter_u64_digits());
        words.resize(end, 0);
    }
    words
}

/// Returns the action that [`encode`] turned into these words.
pub(crate) fn decode(actions: &[ActionSpec], words: &[u64]) -> Action {
    let action = words[0] as u32;
    let mut at = 1;
    let mut data = Vec::with_capacity(actions[action as usize].param_widths.len());
    for width in &actions[action as usize].param_widths {
        let limbs = &words[at..at + width.div_ceil(64) as usize];
        data.push(big(limbs));
        at += limbs.len();
    }
    Action { action, data }
}

/// Returns the number with these digits, the lowest first.
pub(crate) fn big(limbs: &[u64]) -> BigUint {
    match limbs {
        [limb] => BigUint::from(*limb),
        _ => BigUint::new(limbs.iter().flat_map(|limb| [*limb as u32, (limb >> 32) as u32]).collect()),
    }
}

fn hash(seed: u64, words: impl Iterator<Item = u64>) -> u64 {
    let product = words.fold(0u64, |h, word| (h.rotate_left(32) ^ word).wrapping_mul(seed));
    (product ^ product >> 32).wrapping_mul(seed)
}

fn values(words: &[AtomicU64]) -> impl Iterator<Item = u64> {
    words.iter().map(|word| word.load(Ordering::Relaxed))
}

impl Rows {
    /// Creates rows with this number of words for this number of entries.
    pub fn new(row_words: usize, size: u32, row_per_entry: bool) -> Rows {
        let size = size.min(SLOTS_MAX);
        let (kind, rows) = if row_per_entry {
            let stride = size + 1;
            let defaults = Pool::new(BANKS * stride, BANKS * stride + DEFAULT_ROWS);
            let kind = Kind::PerEntry { stride, defaults, retired: HashSet::new(), returns: Returns::new() };
            (kind, BANKS * stride + DEFAULT_ROWS)
        } else {
            // Twice as many as entries, because as many rows again may wait until readers have passed.
            let rows = 2 * size + 1024;
            let pool = Pool::new(1, rows);
            let seed = RandomState::new().hash_one(0u8) | 1;
            (Kind::Shared { pool, by_content: Parted::new(), seed, users: BySlot::new() }, rows)
        };
        let region = Arc::new(Region::zeroed(rows as usize * row_words * 8));
        Rows { region, row_words, huge: None, kind }
    }

    pub fn row_words(&self) -> usize {
        self.row_words
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn content(&self, row: u32) -> &[AtomicU64] {
        &self.region.words()[row as usize * self.row_words..][..self.row_words]
    }

    /// Returns the words of a row in use.
    pub fn words(&self, row: u32) -> Vec<u64> {
        values(self.content(row)).collect()
    }

    /// Returns a row with these words: for the entry in `slot`, or for the default action if that is `None`. `now` is the
    /// entry's present row.
    pub fn take(
        &mut self,
        mut words: Vec<u64>,
        slot: Option<u32>,
        now: Option<u32>,
    ) -> Result<u32, TableError> {
        words.resize(self.row_words, 0);
        let row = match &mut self.kind {
            Kind::Shared { pool, by_content, seed, users } => {
                let content =
                    |row: u32| &self.region.words()[row as usize * self.row_words..][..self.row_words];
                let key = hash(*seed, words.iter().copied());
                let same = |row: &u32| values(content(*row)).eq(words.iter().copied());
                if let Some(row) = by_content.find(key, same) {
                    *users.get_mut(*row as usize) += 1;
                    return Ok(*row);
                }
                let row = pool.take()?;
                *users.get_mut(row as usize) = 1;
                by_content.insert(key, row, |row| hash(*seed, values(content(*row))));
                row
            }
            Kind::PerEntry { stride, defaults, retired, returns } => match slot {
                None => defaults.take()?,
                Some(slot) => {
                    words[0] |= u64::from(slot) << 32;
                    let banks = 0..BANKS;
                    wait(|| {
                        for row in returns.take() {
                            retired.remove(&row);
                        }
                        let mut rows = banks.clone().map(|bank| slot + 1 + bank * *stride);
                        rows.find(|row| Some(*row) != now && !retired.contains(row))
                    })?
                }
            },
        };
        let start = row as usize * self.row_words;
        for (word, value) in self.content(row).iter().zip(&words) {
            // Published by the release store of the index that leads here.
            word.store(*value, Ordering::Relaxed);
        }
        // With a row per entry, most rows are in the first bank.
        let often = match &self.kind {
            Kind::Shared { .. } => usize::MAX,
            Kind::PerEntry { stride, .. } => *stride as usize * self.row_words * 8,
        };
        let end = (start + self.row_words) * 8;
        if end > HUGE_BYTES_MIN && end <= often {
            let ahead = self.huge.get_or_insert_with(|| {
                self.region.advise_huge_within(0..often);
                Ahead::default()
            });
            ahead.reach(&self.region, end);
        }
        Ok(row)
    }

    /// Sets the action of row 0, which is no entry's: the action of a miss, or [`Action::DEFAULT`].
    pub fn set_miss(&self, action: u32) {
        self.content(0)[0].store(u64::from(action), Ordering::Release);
    }

    /// Returns the last word of a row: in tables with timeouts, the time when the entry was last hit.
    pub fn last_word(&self, row: u32) -> &AtomicU64 {
        &self.content(row)[self.row_words - 1]
    }

    /// True if only the caller, which is about to release it, uses a row.
    pub fn has_one_user(&self, row: u32) -> bool {
        match &self.kind {
            Kind::Shared { users, .. } => users.value(row as usize) == 1,
            Kind::PerEntry { .. } => true,
        }
    }

    /// Removes one user of a row.
    pub fn release(&mut self, row: u32) {
        match &mut self.kind {
            Kind::Shared { pool, by_content, seed, users } => {
                let content = &self.region.words()[row as usize * self.row_words..][..self.row_words];
                let users = users.get_mut(row as usize);
                *users -= 1;
                if *users == 0 {
                    by_content.remove(hash(*seed, values(content)), |r| *r == row);
                    pool.retire(row);
                }
            }
            Kind::PerEntry { stride, defaults, retired, returns } => {
                if row >= BANKS * *stride {
                    defaults.retire(row);
                } else {
                    retired.insert(row);
                    returns.retire(row);
                }
            }
        }
    }

    /// Memory in use, of readers and the writer.
    pub fn committed_bytes(&self) -> usize {
        let writer = match &self.kind {
            Kind::Shared { by_content, users, .. } => by_content.bytes() + users.bytes(),
            Kind::PerEntry { retired, .. } => 8 * retired.len(),
        };
        self.region.committed_bytes() + writer
    }
}
