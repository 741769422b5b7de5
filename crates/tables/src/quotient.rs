//! Exact keys of at most 48 bits: open addressing with buckets of four words, which readers search while the writer changes
//! them.
//!
//! Multiplying keys by an odd number modulo 2^width permutes them. The high bits of the product select the bucket where the
//! search starts; its low bits (the remainder) are stored in the word together with the distance from that bucket. Together
//! they identify the key (Knuth, The Art of Computer Programming 3, section 6.4, exercise 13; Cleary, "Compact Hash Tables
//! Using Bidirectional Linear Probing", 1984). So a key takes fewer bits than it has, one word holds key and row, and one
//! store changes both. Readers compare all words of a bucket: that costs less than an unpredictable branch on the position of
//! the key, and few buckets overflow.
//!
//! The parts of a word, from its high bits: remainder, distance (1 in the first bucket, so that no search matches an empty
//! word), the slot of the entry in the table, row. If slot and row do not fit, the slots of entries are in a separate array
//! that only the writer uses.

use crate::growing::Store;
use crate::memory::Region;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum width of a key. Wider keys leave too few bits for the row.
pub(crate) const KEY_BITS_MAX: u32 = 48;

/// Words of a bucket.
pub(crate) const BUCKET: usize = 4;
const DISTANCE_BITS: u32 = 6;
/// Maximum length of a run of full buckets.
const RUN_MAX: usize = (1 << DISTANCE_BITS) - 4;
/// Maximum number of buckets that a key may be in: those of a run, and the one after it. A reader examines no more of them,
/// because it would count beyond the bits of the distance.
pub(crate) const BUCKETS_MAX: usize = RUN_MAX + 1;
/// Buckets after the last one where a search starts: a run may end there, followed by a bucket that is not full.
const SPILL: usize = RUN_MAX + 2;

const BUCKETS_MIN: usize = 16;
/// When more than `LOAD_MOVE` of 100 words are in use, entries start to move to a memory with a load of `LOAD_NEW`; there are
/// never more than `LOAD_MAX`. These numbers limit the memory to 20 bytes per entry, or 28 if slots are stored separately.
const LOAD_MOVE: usize = 58;
const LOAD_NEW: usize = 51;
const LOAD_MAX: usize = 75;
/// Tables of up to this many entries fit the second-level cache even with a load of `LOAD_FEW` instead of `LOAD_NEW`; then
/// nearly all searches end in the first bucket, and the words take up to 32 bytes per entry.
const FEW: usize = 4096;
const LOAD_FEW: usize = 25;
/// Entries also start to move when there is a run of this length.
const RUN_MOVE: usize = 45;
/// Memory of at least this many bytes uses large pages.
const HUGE_BYTES_MIN: usize = 2 << 20;

/// A word that was never used. Empty words are the last ones of a bucket, and a search ends at a bucket that has one.
const EMPTY: u64 = 0;

/// The layout of keys in words, which readers need to know.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    width: u32,
    /// Number of buckets where a search may start.
    pub buckets: u64,
    /// The odd multiplier, in the high `width` bits.
    pub seed: u64,
    /// Number of bits of the product that follow from the bucket where the search starts.
    pub implied: u32,
    /// Number of bits of a word below the distance.
    tag_shift: u32,
    row_bits: u32,
    /// True if the words contain the slots of entries.
    inside: bool,
}

impl Shape {
    /// `None` if rows up to `row_max` do not fit.
    fn new(width: u32, buckets: usize, seed: u64, row_max: u32, slots: usize) -> Option<Shape> {
        let implied = buckets.ilog2().min(width);
        let tag_shift = 64 - DISTANCE_BITS - (width - implied);
        // Includes room for the slots of later entries.
        let slot_bits = (slots.max(buckets * BUCKET) as u64).ilog2() + 1;
        let fits = |bits: u32| bits >= 32 || row_max >> bits == 0;
        let inside = tag_shift > slot_bits && fits(tag_shift - slot_bits);
        let row_bits = if inside { tag_shift - slot_bits } else { tag_shift }.min(32);
        let buckets = buckets as u64;
        fits(row_bits).then_some(Shape { width, buckets, seed, implied, tag_shift, row_bits, inside })
    }

    /// Returns the step that a reader adds for each bucket. Two words that differ by less have the same key.
    pub fn step(&self) -> u64 {
        1 << self.tag_shift
    }

    pub fn row_mask(&self) -> u64 {
        (1 << self.row_bits) - 1
    }

    /// Returns the bucket where the search for a key starts, and the key's word there, without slot and row.
    fn home(&self, key: u64) -> (usize, u64) {
        let product = key.wrapping_mul(self.seed);
        let index = (u128::from(product) * u128::from(self.buckets)) >> 64;
        (index as usize, (product << self.implied) + self.step())
    }

    /// Returns the key of a word at this place.
    fn key(&self, place: usize, word: u64, inverse: u64) -> u64 {
        let (width, implied) = (self.width, self.implied);
        let tag = word >> self.tag_shift;
        let home = (place / BUCKET) as u64 + 1 - (tag & ((1 << DISTANCE_BITS) - 1));
        // The products whose search starts there are consecutive; this is the one with this remainder.
        let first = (u128::from(home) << width).div_ceil(u128::from(self.buckets)) as u64;
        let product = first + ((tag >> DISTANCE_BITS).wrapping_sub(first) & ((1 << (width - implied)) - 1));
        product.wrapping_mul(inverse) & ((1 << width) - 1)
    }

    fn deleted(&self) -> u64 {
        ((1 << DISTANCE_BITS) - 1) << self.tag_shift
    }

    fn takes(&self, row: u32, slot: u32) -> bool {
        u64::from(row) <= self.row_mask()
            && (!self.inside || u64::from(slot) < 1 << (self.tag_shift - self.row_bits))
    }
}

/// Returns a multiplier and its inverse modulo 2^64. Each round of Newton's method doubles the number of correct bits.
fn multiplier() -> (u64, u64) {
    let odd = RandomState::new().hash_one(0u8) | 1;
    let inverse = (0..5).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))));
    (odd, inverse)
}

/// Entries by slot, with key and row.
pub(crate) struct Quotient {
    pub region: Arc<Region>,
    pub shape: Shape,
    inverse: u64,
    /// The place of the entry's word plus 1, by slot.
    places: Arc<Region>,
    /// The slot by place, unless the words contain slots.
    beside: Option<Arc<Region>>,
    /// Number of words that are not empty.
    used: usize,
    live: usize,
    /// The highest row and slot so far.
    row_max: u32,
    slot_max: u32,
    /// True if a run was nearly too long.
    long_run: bool,
}

impl Quotient {
    /// Creates a store for keys of this many bits.
    pub fn new(width: u32) -> Quotient {
        debug_assert!((1..=KEY_BITS_MAX).contains(&width));
        let (odd, inverse) = multiplier();
        let shape = Shape::new(width, BUCKETS_MIN, odd << (64 - width), 0, 0).expect("row 0 fits");
        Quotient::with_shape(shape, inverse, 0)
    }

    fn with_shape(shape: Shape, inverse: u64, slot_max: u32) -> Quotient {
        let words = Self::words_of(&shape);
        let zeroed = |bytes: usize| {
            let region = Region::zeroed(bytes);
            if bytes >= HUGE_BYTES_MIN {
                region.advise_huge();
            }
            region
        };
        Quotient {
            region: Arc::new(zeroed(words * 8)),
            shape,
            inverse,
            places: Arc::new(Region::zeroed(4 * words.max(slot_max as usize + 1))),
            beside: (!shape.inside).then(|| Arc::new(zeroed(words * 4))),
            used: 0,
            live: 0,
            row_max: 0,
            slot_max,
            long_run: false,
        }
    }

    /// True if the next rows may not fit.
    fn many_rows(&self, row: u32) -> bool {
        u64::from(row) > self.shape.row_mask() / 2
    }

    /// True if this row and slot fit.
    fn takes(&self, row: u32, slot: u32) -> bool {
        self.shape.takes(row, slot) && (slot as usize) < self.places.halves().len()
    }

    fn words_of(shape: &Shape) -> usize {
        (shape.buckets as usize + SPILL) * BUCKET
    }

    fn words(&self) -> &[AtomicU64] {
        &self.region.words()[..Self::words_of(&self.shape)]
    }

    fn word(&self, place: usize) -> u64 {
        self.words()[place].load(Ordering::Relaxed)
    }

    fn store(&self, place: usize, word: u64) {
        self.words()[place].store(word, Ordering::Release);
    }

    /// Returns the place of a key, or else the place for it and its word there, without slot and row.
    fn search(&self, key: u64) -> Result<usize, (usize, u64)> {
        let (mut bucket, mut tag) = self.shape.home(key);
        let (step, deleted) = (self.shape.step(), self.shape.deleted());
        let mut free = None;
        loop {
            for place in bucket * BUCKET..(bucket + 1) * BUCKET {
                let word = self.word(place);
                if word == EMPTY {
                    return Err(free.unwrap_or((place, tag)));
                }
                if word ^ tag < step {
                    return Ok(place);
                }
                if word == deleted && free.is_none() {
                    free = Some((place, tag));
                }
            }
            bucket += 1;
            tag += step;
        }
    }

    fn slot_at(&self, place: usize) -> u32 {
        match &self.beside {
            Some(slots) => slots.halves()[place].load(Ordering::Relaxed),
            None => ((self.word(place) & (self.shape.step() - 1)) >> self.shape.row_bits) as u32,
        }
    }

    /// Returns the slot of the entry with this key.
    pub fn find(&self, key: u64) -> Option<u32> {
        self.search(key).ok().map(|place| self.slot_at(place))
    }

    fn row_at(&self, place: usize) -> u32 {
        (self.word(place) & self.shape.row_mask()) as u32
    }

    /// The row of the entry in a slot.
    pub fn row(&self, slot: u32) -> Option<u32> {
        self.place(slot).map(|place| self.row_at(place))
    }

    /// Key and row of the entry in a slot.
    pub fn get(&self, slot: u32) -> Option<(u64, u32)> {
        let place = self.place(slot)?;
        Some((self.shape.key(place, self.word(place), self.inverse), self.row_at(place)))
    }

    fn is_full(&self, bucket: usize) -> bool {
        self.word(bucket * BUCKET + BUCKET - 1) != EMPTY
    }

    /// Returns the run of full buckets around this one, which counts as full.
    fn run_around(&self, bucket: usize) -> Range<usize> {
        let is_full = |bucket: &usize| self.is_full(*bucket);
        let before = (0..bucket).rev().take_while(is_full).count();
        let after = (bucket + 1..self.words().len() / BUCKET).take_while(is_full).count();
        bucket - before..bucket + 1 + after
    }

    /// Memory in use, of readers and the writer.
    pub fn committed_bytes(&self) -> usize {
        let beside = self.beside.as_ref().map_or(0, |beside| beside.committed_bytes());
        self.region.committed_bytes() + self.places.committed_bytes() + beside
    }
}

impl Store for Quotient {
    fn place(&self, slot: u32) -> Option<usize> {
        let place = self.places.halves().get(slot as usize)?.load(Ordering::Relaxed);
        (place as usize).checked_sub(1)
    }

    fn end(&self) -> usize {
        self.words().len()
    }

    fn add(&mut self, key: &[u64], row: u32, slot: u32) -> Option<usize> {
        if !self.takes(row, slot) {
            return None;
        }
        let (place, tag) = self.search(key[0]).expect_err("the key is new");
        if self.word(place) == EMPTY {
            if place % BUCKET == BUCKET - 1 {
                let run = self.run_around(place / BUCKET).len();
                // Also if the entry does not go there: the next store has another multiplier.
                self.long_run |= run > RUN_MOVE;
                if run > RUN_MAX {
                    return None;
                }
            }
            self.used += 1;
        }
        self.live += 1;
        (self.row_max, self.slot_max) = (self.row_max.max(row), self.slot_max.max(slot));
        self.places.halves()[slot as usize].store(place as u32 + 1, Ordering::Relaxed);
        match &self.beside {
            Some(beside) => {
                beside.halves()[place].store(slot, Ordering::Relaxed);
                self.store(place, tag | u64::from(row));
            }
            None => self.store(place, tag | u64::from(slot) << self.shape.row_bits | u64::from(row)),
        }
        Some(place)
    }

    fn set_row(&mut self, slot: u32, row: u32) -> bool {
        if !self.takes(row, slot) {
            return false;
        }
        let place = self.place(slot).expect("the slot is in use");
        self.row_max = self.row_max.max(row);
        self.store(place, self.word(place) & !self.shape.row_mask() | u64::from(row));
        true
    }

    fn remove(&mut self, slot: u32) {
        let mut place = self.place(slot).expect("the slot is in use");
        self.places.halves()[slot as usize].store(0, Ordering::Relaxed);
        self.live -= 1;
        let deleted = self.shape.deleted();
        self.store(place, deleted);
        // A search does not continue beyond the end of a run. (If the first word of a bucket is empty, all are.)
        if self.word(place + 1) == EMPTY {
            while self.word(place) == deleted {
                self.store(place, EMPTY);
                self.used -= 1;
                let Some(before) = place.checked_sub(1) else { break };
                place = before;
            }
        }
    }

    fn room(&self, row: u32, slot: u32) -> usize {
        if !self.takes(row, slot) {
            return 0;
        }
        // A change may bring a row that is one higher than all before.
        let rows =
            if self.many_rows(row) { (self.shape.row_mask() - u64::from(row)) as usize } else { usize::MAX };
        (self.shape.buckets as usize * BUCKET * LOAD_MAX / 100).saturating_sub(self.used).min(rows)
    }

    fn nearly_full(&self, row: u32) -> bool {
        let load = if self.used < FEW { LOAD_MOVE * LOAD_FEW / LOAD_NEW } else { LOAD_MOVE };
        (self.used + 1) * 100 > self.shape.buckets as usize * BUCKET * load
            || self.long_run
            || self.many_rows(row)
    }

    fn larger(&self, row: u32, slot: u32, attempt: u32) -> Quotient {
        let width = self.shape.width;
        let row_max = self.row_max.max(row);
        let slot_max = self.slot_max.max(slot);
        // Leaves room for higher rows.
        let row_max = row_max.saturating_mul(2).saturating_add(1);
        let load = if self.live < FEW { LOAD_FEW } else { LOAD_NEW };
        let mut buckets = ((self.live + 1) * 100 / load).div_ceil(BUCKET).max(BUCKETS_MIN);
        let (mut seed, mut inverse) = (self.shape.seed, self.inverse);
        if self.long_run || attempt > 0 {
            let odd;
            (odd, inverse) = multiplier();
            seed = odd << (64 - width);
            buckets = buckets.max(self.shape.buckets as usize);
            (0..=attempt).for_each(|_| buckets = buckets * 5 / 4);
        }
        loop {
            match Shape::new(width, buckets, seed, row_max, slot_max as usize + 1) {
                Some(shape) => return Quotient::with_shape(shape, inverse, slot_max),
                None => buckets *= 2,
            }
        }
    }

    fn copy_to(&self, to: &mut Quotient, places: Range<usize>) -> bool {
        // With the same multiplier the order stays the same, so both memories are traversed from start to end.
        places.into_iter().all(|place| {
            let word = self.word(place);
            if word == EMPTY || word == self.shape.deleted() {
                return true;
            }
            let key = self.shape.key(place, word, self.inverse);
            to.add(&[key], self.row_at(place), self.slot_at(place)).is_some()
        })
    }

    fn memory(&self) -> Vec<(Arc<Region>, usize)> {
        let words = self.words().len();
        if words * 8 < HUGE_BYTES_MIN {
            return Vec::new();
        }
        // The number of slots in use when it is full.
        let slots = (self.slot_max as usize + 1) * 9 / 8;
        let beside = self.beside.iter().map(|beside| (Arc::clone(beside), words * 4));
        let both = [(Arc::clone(&self.region), words * 8), (Arc::clone(&self.places), slots * 4)];
        both.into_iter().chain(beside).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growing::Growing;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Looks up a key like a reader.
    fn lookup(table: &Growing<Quotient>, key: u64) -> u32 {
        let table = &table.now;
        let (mut bucket, mut tag) = table.shape.home(key);
        loop {
            let words = &table.words()[bucket * BUCKET..][..BUCKET];
            let words = words.iter().map(|word| word.load(Ordering::Relaxed) ^ tag);
            let nearest = words.min().expect("a bucket has words");
            if nearest < table.shape.step() {
                return (nearest & table.shape.row_mask()) as u32;
            }
            if !table.is_full(bucket) {
                return 0;
            }
            bucket += 1;
            tag = tag.wrapping_add(table.shape.step());
        }
    }

    /// Inserts, changes and deletes as `choices` say; every key must be found as in a map.
    fn agrees(width: u32, row_max: u32, choices: &[(u64, u32)]) {
        let mut table = Growing::new(Quotient::new(width));
        let mut model: HashMap<u64, (u32, u32)> = HashMap::new();
        let mut free: Vec<u32> = (0..choices.len() as u32).rev().collect();
        for (choice, number) in choices {
            let key = choice & ((1 << width) - 1);
            let row = 1 + number % row_max;
            match model.get(&key).copied() {
                None => {
                    let slot = free.pop().expect("as many as choices");
                    table.insert(&[key], row, slot);
                    model.insert(key, (slot, row));
                }
                Some((slot, _)) if number % 3 == 0 => {
                    table.set_row(slot, row);
                    model.insert(key, (slot, row));
                }
                Some((slot, _)) => {
                    table.remove(slot);
                    model.remove(&key);
                    free.push(slot);
                }
            }
        }
        for (choice, _) in choices {
            for key in [choice, &(choice ^ 1)].map(|key| key & ((1 << width) - 1)) {
                let expected = model.get(&key);
                assert_eq!(lookup(&table, key), expected.map_or(0, |(_, row)| *row), "{key:#x}");
                assert_eq!(table.now.find(key), expected.map(|(slot, _)| *slot), "{key:#x}");
            }
        }
        for slot in 0..choices.len() as u32 {
            let expected = model.iter().find(|(_, (s, _))| *s == slot).map(|(key, (_, row))| (*key, *row));
            assert_eq!(table.now.get(slot), expected, "slot {slot}");
        }
        let table = &table.now;
        let used = (0..table.words().len()).filter(|i| table.word(*i) != EMPTY).count();
        assert_eq!((table.used, table.live), (used, model.len()));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]
        #[test]
        fn any_keys(
            width in 1u32..=48, row_bits in 1u32..28, few in any::<bool>(),
            choices in proptest::collection::vec((any::<u64>(), any::<u32>()), 1..400),
        ) {
            let key = |key: u64| if few { key % 50 } else { key };
            let choices: Vec<_> = choices.into_iter().map(|(k, n)| (key(k), n)).collect();
            agrees(width, 1 << row_bits, &choices);
        }
    }

    #[test]
    fn runs_stay_short_when_keys_are_close() {
        // Consecutive products: all searches start in the same bucket.
        let mut table = Growing::new(Quotient::new(48));
        for i in 0..3000u64 {
            let inverse = table.now.inverse;
            let key = (i + (1 << 40)).wrapping_mul(inverse) & ((1 << 48) - 1);
            if table.now.find(key).is_none() {
                table.insert(&[key], 1 + i as u32, i as u32);
            }
            assert_eq!(lookup(&table, key), word_row(&table.now, key));
        }
        let table = &table.now;
        let buckets = table.words().len() / BUCKET;
        let longest = (0..buckets).filter(|i| table.is_full(*i)).map(|i| table.run_around(i).len()).max();
        assert!(longest.is_some_and(|run| run <= RUN_MAX), "{longest:?}");
    }

    fn word_row(table: &Quotient, key: u64) -> u32 {
        table.find(key).and_then(|slot| table.get(slot)).map_or(0, |(_, row)| row)
    }
}
