//! Facts about the slots of all variables at a program point.

/// Four bits for each slot: the value may never have been written; the header may be valid; it may be invalid; its
/// invalidity is known only from a test. (Each header has its own slot for the last three.) A slot without facts holds
/// a value, or a valid header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    words: Vec<[u64; 4]>,
}

/// The possible states of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validity {
    Valid,
    Invalid,
    Unknown,
}

const UNWRITTEN: usize = 0;
const VALID: usize = 1;
const INVALID: usize = 2;
const TESTED: usize = 3;

impl State {
    fn set(&mut self, slot: u32, fact: usize, on: bool) {
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if word >= self.words.len() {
            if !on {
                return;
            }
            self.words.resize(word + 1, [0; 4]);
        }
        let word = &mut self.words[word][fact];
        *word = if on { *word | bit } else { *word & !bit };
    }

    fn get(&self, slot: u32, fact: usize) -> bool {
        self.words.get(slot as usize / 64).is_some_and(|word| word[fact] & (1 << (slot % 64)) != 0)
    }

    /// Notes that the slots from `start` on hold values, or do not yet.
    pub(super) fn set_written(&mut self, start: u32, size: u32, written: bool) {
        (start..start + size).for_each(|slot| self.set(slot, UNWRITTEN, !written));
    }

    /// True if a slot may hold no value.
    pub(super) fn unwritten(&self, slot: u32) -> bool {
        self.get(slot, UNWRITTEN)
    }

    /// True if any of these slots may hold no value.
    pub(super) fn any_unwritten(&self, start: u32, size: u32) -> bool {
        (start..start + size).any(|slot| self.get(slot, UNWRITTEN))
    }

    pub(super) fn set_validity(&mut self, slot: u32, validity: Validity) {
        self.set(slot, VALID, validity != Validity::Invalid);
        self.set(slot, INVALID, validity != Validity::Valid);
        self.set(slot, TESTED, false);
    }

    /// Notes that a test for validity failed. A test alone must not change what holds after both branches: a parameter
    /// that is assumed to be valid stays so.
    pub(super) fn test_failed(&mut self, slot: u32) {
        let believed = self.validity(slot) == Validity::Valid || self.get(slot, TESTED);
        self.set_validity(slot, Validity::Invalid);
        self.set(slot, TESTED, believed);
    }

    pub(super) fn validity(&self, slot: u32) -> Validity {
        match (self.get(slot, VALID), self.get(slot, INVALID)) {
            (_, false) => Validity::Valid,
            (true, true) => Validity::Unknown,
            (false, true) => Validity::Invalid,
        }
    }

    /// Joins another state into this one. True if that changed anything.
    fn join(&mut self, other: &State) -> bool {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), [0; 4]);
        }
        let mut changed = false;
        // A header that is invalid only according to a test takes its state from the other side.
        for (i, mine) in self.words.iter_mut().enumerate() {
            let theirs = other.words.get(i).copied().unwrap_or_default();
            let before = *mine;
            mine[UNWRITTEN] |= theirs[UNWRITTEN];
            mine[VALID] |= theirs[VALID];
            let invalid = mine[INVALID] & !mine[TESTED] | theirs[INVALID] & !theirs[TESTED];
            mine[TESTED] &= theirs[TESTED];
            mine[INVALID] = invalid | mine[TESTED];
            changed |= *mine != before;
        }
        changed
    }
}

/// Joins two states; `None` stands for an unreachable program point.
pub(super) fn join(mut a: Option<State>, b: Option<State>) -> Option<State> {
    join_into(&mut a, b.as_ref());
    a
}

/// Joins a state into another. True if that changed it.
pub(super) fn join_into(a: &mut Option<State>, b: Option<&State>) -> bool {
    match (a, b) {
        (_, None) => false,
        (Some(a), Some(b)) => a.join(b),
        (a @ None, Some(b)) => {
            *a = Some(b.clone());
            true
        }
    }
}
