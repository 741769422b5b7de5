//! Checks that the cases of a `select` cover every value of its keys.

use crate::consts::number;
use crate::typed::*;
use num_bigint::{BigInt, BigUint, Sign};
use num_traits::{One, Zero};

/// Maximum number of steps for the selects of a program. A step creates or examines a cube.
pub(super) const STEPS_MAX: u32 = 1 << 17;

/// Maximum number of bits in the keys of a `select`; wider selects are not checked.
const BITS_MAX: u32 = 512;

/// True if some value of the keys matches no case. False if that is unknown because a key has no width or `steps` are
/// used up.
///
/// Labels known only at run time (value sets, variables) count as empty, because they may match nothing.
pub(super) fn has_gap(program: &Program, keys: &[Expr], cases: &[SelectCase], steps: &mut u32) -> bool {
    let Some(domains) = keys.iter().map(|key| Domain::of(program, &key.ty)).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let bits: u32 = domains.iter().map(|domain| domain.bits).fold(0, u32::saturating_add);
    if bits > BITS_MAX {
        return false;
    }
    // The cubes of each label, by case and key.
    let mut labels: Vec<Vec<Vec<Cube>>> = Vec::with_capacity(cases.len());
    for case in cases {
        if let [KeySet::Any] = case.keysets[..] {
            return false;
        }
        let label: Vec<Vec<Cube>> = case.keysets.iter().zip(&domains).map(|(k, d)| d.label(k)).collect();
        if !spend(steps, label.iter().map(Vec::len).sum()) {
            return false;
        }
        labels.push(label);
    }
    let total: BigUint = domains.iter().map(|domain| domain.size.clone()).product();
    let size = |(cubes, domain): (&Vec<Cube>, &Domain)| -> BigUint {
        cubes.iter().map(|cube| cube.size(domain.bits)).sum()
    };
    let taken: BigUint =
        labels.iter().map(|label| label.iter().zip(&domains).map(size).product::<BigUint>()).sum();
    if taken < total {
        return true;
    }
    // Numbers beyond the last member of an enum do not occur, so they need no case.
    for (i, domain) in domains.iter().enumerate() {
        let mut label: Vec<Vec<Cube>> = domains.iter().map(|_| vec![Cube::default()]).collect();
        let last = (BigUint::one() << domain.bits) - 1u8;
        label[i] = between(domain.size.clone(), last, domain.bits);
        labels.push(label);
    }
    let mut cubes = Vec::new();
    for label in labels {
        let mut joined = vec![Cube::default()];
        for (parts, domain) in label.iter().zip(&domains) {
            if !spend(steps, joined.len().saturating_mul(parts.len())) {
                return false;
            }
            joined = joined.iter().flat_map(|a| parts.iter().map(|b| a.append(b, domain.bits))).collect();
        }
        cubes.append(&mut joined);
    }
    leaves_gap(cubes, bits, steps)
}

/// True if steps are left after these.
fn spend(steps: &mut u32, n: usize) -> bool {
    *steps = steps.saturating_sub(u32::try_from(n).unwrap_or(u32::MAX));
    *steps > 0
}

/// True if some number of `bits` bits is in none of the cubes.
fn leaves_gap(cubes: Vec<Cube>, bits: u32, steps: &mut u32) -> bool {
    // Subsets of the numbers that are still to be examined, each with its number of undecided bits.
    let mut open = vec![(cubes, bits)];
    while let Some((cubes, bits)) = open.pop() {
        if !spend(steps, cubes.len() + 1) {
            return false;
        }
        let taken: BigUint = cubes.iter().map(|cube| cube.size(bits)).sum();
        if taken < BigUint::one() << bits {
            return true;
        }
        // The largest cube covers everything, or a bit of its mask splits the numbers.
        let Some(largest) = cubes.iter().min_by_key(|cube| cube.mask.count_ones()) else { return true };
        let Some(bit) = largest.mask.trailing_zeros() else { continue };
        for side in [false, true] {
            let half = cubes.iter().filter(|cube| !cube.mask.bit(bit) || cube.value.bit(bit) == side);
            let half = half.map(|cube| {
                let mut cube = cube.clone();
                cube.mask.set_bit(bit, false);
                cube.value.set_bit(bit, false);
                cube
            });
            open.push((half.collect(), bits - 1));
        }
    }
    false
}

/// The numbers that agree with `value` in the bits of `mask`; by default all numbers.
#[derive(Clone, Debug, Default)]
struct Cube {
    value: BigUint,
    mask: BigUint,
}

impl Cube {
    /// Returns how many numbers of `bits` bits it contains.
    fn size(&self, bits: u32) -> BigUint {
        BigUint::one() << (u64::from(bits) - self.mask.count_ones())
    }

    /// Returns this cube extended by `bits` lower bits from another cube.
    fn append(&self, lower: &Cube, bits: u32) -> Cube {
        Cube { value: (&self.value << bits) | &lower.value, mask: (&self.mask << bits) | &lower.mask }
    }
}

/// Returns the numbers from `lo` to `hi` as prefixes, at most two for each bit.
fn between(mut lo: BigUint, hi: BigUint, bits: u32) -> Vec<Cube> {
    let all = (BigUint::one() << bits) - 1u8;
    let mut cubes = Vec::new();
    while lo <= hi {
        // The largest block that starts at `lo` and does not exceed `hi`.
        let left = (&hi - &lo + 1u8).bits() - 1;
        let free = lo.trailing_zeros().unwrap_or(u64::from(bits)).min(left);
        let block = BigUint::one() << free;
        cubes.push(Cube { value: lo.clone(), mask: &all - (&block - 1u8) });
        lo += block;
    }
    cubes
}

/// The values of a key: the numbers below `size`, of `bits` bits.
struct Domain {
    bits: u32,
    size: BigUint,
}

impl Domain {
    fn of(program: &Program, ty: &Type) -> Option<Domain> {
        let members = match ty {
            Type::Bit(bits) | Type::Int(bits) => {
                return Some(Domain { bits: *bits, size: BigUint::one() << *bits });
            }
            Type::New(id) => return Domain::of(program, &program.new_types[id.index()].ty),
            Type::Enum(id) => match &program.enums[id.index()] {
                Enum { underlying: Some(ty), .. } => return Domain::of(program, ty),
                Enum { members, .. } => members.len(),
            },
            Type::Bool => 2,
            Type::Error => program.errors.len(),
            _ => return None,
        };
        let last = members.checked_sub(1)?;
        Some(Domain { bits: usize::BITS - last.leading_zeros(), size: members.into() })
    }

    /// Returns the values of a label, with negative numbers in two's complement.
    fn label(&self, keyset: &KeySet) -> Vec<Cube> {
        let all = (BigInt::one() << self.bits) - 1u8;
        let unsigned = |n: BigInt| (n & &all).to_biguint().unwrap_or_default();
        let known = |value: &Expr| number(&value.kind);
        match keyset {
            KeySet::Any => vec![Cube::default()],
            KeySet::Value(value) => known(value)
                .map(|n| Cube { value: unsigned(n), mask: unsigned(all.clone()) })
                .into_iter()
                .collect(),
            KeySet::Mask(value, mask) => known(value)
                .zip(known(mask))
                .map(|(value, mask)| Cube { value: unsigned(value & &mask), mask: unsigned(mask) })
                .into_iter()
                .collect(),
            KeySet::Range(lo, hi) => match known(lo).zip(known(hi)) {
                Some((lo, hi)) if lo > hi => Vec::new(),
                Some((lo, hi)) if lo.sign() == Sign::Minus && hi.sign() != Sign::Minus => {
                    let last = unsigned(all.clone());
                    let negative = between(unsigned(lo), last, self.bits);
                    [negative, between(BigUint::zero(), unsigned(hi), self.bits)].concat()
                }
                Some((lo, hi)) => between(unsigned(lo), unsigned(hi), self.bits),
                None => Vec::new(),
            },
            KeySet::ValueSet(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares all sets of up to three prefixes of five bits with a count.
    #[test]
    fn gaps_are_those_that_counting_finds() {
        const BITS: u32 = 5;
        let prefixes: Vec<(u32, u32)> = (0..=BITS)
            .flat_map(|free| (0..1u32 << (BITS - free)).map(move |i| (i << free, ((i + 1) << free) - 1)))
            .collect();
        let mut gaps = 0;
        for a in &prefixes {
            for b in &prefixes {
                for c in &prefixes {
                    let ranges = [a, b, c];
                    let expected =
                        (0..1 << BITS).any(|n| !ranges.iter().any(|(lo, hi)| (*lo..=*hi).contains(&n)));
                    let cubes = ranges
                        .iter()
                        .flat_map(|(lo, hi)| between((*lo).into(), (*hi).into(), BITS))
                        .collect();
                    assert_eq!(leaves_gap(cubes, BITS, &mut 1000), expected, "{ranges:?}");
                    gaps += usize::from(expected);
                }
            }
        }
        assert!(gaps > 1000 && gaps < prefixes.len().pow(3));
    }

    #[test]
    fn ranges_are_few_prefixes() {
        for (lo, hi) in [(0u32, 31), (1, 30), (5, 5), (7, 24), (16, 31)] {
            let cubes = between(lo.into(), hi.into(), 5);
            assert!(cubes.len() <= 10);
            let has =
                |n: u32| cubes.iter().filter(|cube| BigUint::from(n) & &cube.mask == cube.value).count();
            (0..32).for_each(|n| assert_eq!(has(n), usize::from((lo..=hi).contains(&n)), "{lo}..{hi}: {n}"));
        }
    }

    /// A select that the analysis cannot decide within these steps gets no warning.
    #[test]
    fn steps_are_bounded() {
        // Each bit alone, both ways: no subset is decided before most bits are.
        let cubes: Vec<Cube> =
            (0..40).map(|i| Cube { value: BigUint::one() << i, mask: BigUint::one() << i }).collect();
        assert!(leaves_gap(cubes.clone(), 40, &mut 10_000));
        assert!(!leaves_gap(cubes, 40, &mut 10));
    }
}
