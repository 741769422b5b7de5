//! Combinations of valid headers: the headers that may be valid together at a program point.
//!
//! Facts about single headers are lost where paths meet. A combination keeps the fact that headers occur together, like those of a
//! tunnel: where one of them is known to be valid, all are.

/// A combination of valid headers: a bit for each, by header number.
pub type Combination = u128;

/// Number of headers that combinations describe: the first of the program.
pub const HEADERS_MAX: usize = 128;
const _: () = assert!(HEADERS_MAX <= Combination::BITS as usize);

/// Maximum number of combinations at a program point; beyond it, nothing is known.
pub const COMBINATIONS_MAX: usize = 32;

/// The combinations that packets may have: in order, at least one. `None`: any.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Combinations(Option<Vec<Combination>>);

impl Clone for Combinations {
    fn clone(&self) -> Combinations {
        Combinations(self.0.clone())
    }

    fn clone_from(&mut self, other: &Combinations) {
        self.0.clone_from(&other.0);
    }
}

impl Combinations {
    /// No header is valid.
    pub fn none_valid() -> Combinations {
        Combinations(Some(vec![0]))
    }

    /// Adds the combinations of `other`. Returns true if some were new.
    pub fn join(&mut self, other: &Combinations) -> bool {
        let Some(mine) = &mut self.0 else { return false };
        let Some(theirs) = &other.0 else {
            self.0 = None;
            return true;
        };
        let before = mine.len();
        for combination in theirs {
            if let Err(at) = mine[..before].binary_search(combination) {
                debug_assert!(at <= before);
                mine.push(*combination);
            }
        }
        let changed = mine.len() > before;
        if changed {
            self.tidy();
        }
        changed
    }

    /// Makes a header valid or invalid in each combination; with `None`, both.
    pub fn assign(&mut self, header: u32, value: impl Fn(Combination) -> Option<bool>) {
        let bit = 1 << header;
        self.replace(|combination, add| {
            let value = value(combination);
            if value != Some(false) {
                add(combination | bit);
            }
            if value != Some(true) {
                add(combination & !bit);
            }
        });
    }

    /// Makes one of these headers valid; `None` means a header that combinations do not describe, or no header.
    pub fn assign_one_of(&mut self, headers: impl Iterator<Item = Option<u32>> + Clone) {
        self.replace(|combination, add| {
            headers.clone().for_each(|header| add(combination | header.map_or(0, |header| 1 << header)));
        });
    }

    /// Keeps the combinations that fulfil a condition; all of them if none does, because then no packet gets there.
    pub fn retain(&mut self, condition: impl Fn(Combination) -> bool) {
        if let Some(all) = &mut self.0
            && all.iter().any(|combination| condition(*combination))
        {
            all.retain(|combination| condition(*combination));
        }
    }

    /// The result of a condition, if it is the same for all combinations.
    pub fn agree(&self, condition: impl Fn(Combination) -> Option<bool>) -> Option<bool> {
        let mut results = self.0.as_ref()?.iter().map(|combination| condition(*combination));
        let first = results.next()??;
        results.all(|result| result == Some(first)).then_some(first)
    }

    /// The headers that are valid in all combinations, and those that are valid in some.
    pub fn always_and_ever(&self) -> (Combination, Combination) {
        let Some(all) = &self.0 else { return (0, Combination::MAX) };
        all.iter().fold((Combination::MAX, 0), |(always, ever), one| (always & one, ever | one))
    }

    /// Replaces each combination by those that `by` adds.
    fn replace(&mut self, by: impl Fn(Combination, &mut dyn FnMut(Combination))) {
        let Some(all) = &mut self.0 else { return };
        for at in 0..all.len() {
            let mut is_first = true;
            let combination = all[at];
            by(combination, &mut |new| match std::mem::replace(&mut is_first, false) {
                true => all[at] = new,
                false => all.push(new),
            });
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        if let Some(all) = &mut self.0 {
            all.sort_unstable();
            all.dedup();
            if all.len() > COMBINATIONS_MAX {
                self.0 = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[Combination]) -> Combinations {
        Combinations(Some(all.to_vec()))
    }

    #[test]
    fn a_header_becomes_valid_invalid_or_unknown() {
        let mut all = of(&[0b00, 0b11]);
        all.assign(2, |_| None);
        assert_eq!(all, of(&[0b000, 0b011, 0b100, 0b111]));
        all.assign(0, |combination| Some(combination & 0b10 != 0));
        assert_eq!(all, of(&[0b000, 0b011, 0b100, 0b111]));
        all.assign(1, |_| Some(false));
        assert_eq!(all, of(&[0b000, 0b001, 0b100, 0b101]));
        all.retain(|combination| combination & 0b100 != 0);
        assert_eq!(all.always_and_ever(), (0b100, 0b101));
        all.assign_one_of([Some(1), None].into_iter());
        assert_eq!(all, of(&[0b100, 0b101, 0b110, 0b111]));
    }

    #[test]
    fn too_many_combinations_are_any() {
        let mut all = Combinations::none_valid();
        (0..5).for_each(|header| all.assign(header, |_| None));
        assert_eq!(all.always_and_ever(), (0, 0b11111));
        assert!(!all.join(&Combinations::none_valid()));
        assert!(all.join(&of(&[1 << 7])));
        assert_eq!(all, Combinations(None));
        assert_eq!(all.always_and_ever(), (0, Combination::MAX));
        assert!(!all.join(&Combinations::none_valid()));
    }

    #[test]
    fn a_condition_is_known_if_all_combinations_agree() {
        let all = of(&[0b01, 0b10]);
        assert_eq!(all.agree(|combination| Some(combination == 0)), Some(false));
        assert_eq!(all.agree(|combination| Some(combination == 1)), None);
        assert_eq!(all.agree(|_| None), None);
        assert_eq!(Combinations(None).agree(|_| Some(true)), None);
    }
}
