//! Unreachable parser states and select cases, and states that end without a transition.

use super::coverage::{self, has_gap};
use crate::consts::number;
use crate::typed::*;
use num_bigint::BigInt;
use num_traits::Zero;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of comparisons of a case with an earlier one, per program. Further cases are reported only if they equal
/// an earlier one or are covered by ranges of one key.
const COMPARISONS_MAX: u32 = 1 << 21;

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    let mut comparisons = COMPARISONS_MAX;
    let mut steps = coverage::STEPS_MAX;
    for parser in &program.parsers {
        let Some(body) = &parser.body else { continue };
        for state in &body.states {
            match &state.transition {
                Transition::Direct(Target::Reject, span) if *span == state.span => {
                    let text = format!("state `{}` has no transition and rejects the packet", state.name);
                    found.push(
                        Diagnostic::warning("parser-transition", state.span, text)
                            .note("write `transition reject;` if that is intended"),
                    );
                }
                Transition::Direct(..) => {}
                Transition::Select { keys, cases, .. } => {
                    select(program, state, (keys, cases), &mut comparisons, found);
                    incomplete(program, state, (keys, cases), &mut steps, found);
                }
            }
        }
        reachable(parser, body, found);
    }
}

fn select(
    program: &Program,
    state: &State,
    (keys, cases): (&[Expr], &[SelectCase]),
    comparisons: &mut u32,
    found: &mut Vec<Diagnostic>,
) {
    let mut earlier: Vec<(Vec<Values>, &SelectCase)> = Vec::new();
    let constants: Vec<Option<BigInt>> = keys.iter().map(|key| number(&key.kind)).collect();
    // If no key is constant, a case with one value for each key covers only equal cases.
    let no_constants = constants.iter().all(Option::is_none);
    let mut exact: HashMap<Vec<BigInt>, &SelectCase> = HashMap::new();
    let mut wide: Vec<usize> = Vec::new();
    let mut intervals = Intervals::default();
    for case in cases {
        let values: Vec<Values> = match &case.keysets[..] {
            // `default` alone stands for all keys.
            [KeySet::Any] => keys.iter().map(|_| Values::All).collect(),
            keysets => {
                keysets.iter().zip(keys).map(|(keyset, key)| Values::of(program, keyset, &key.ty)).collect()
            }
        };
        let single: Option<Vec<BigInt>> = values.iter().map(Values::single).collect();
        let single = single.filter(|_| no_constants);
        let same = single.as_ref().and_then(|values| exact.get(values).copied());
        let before = same.or_else(|| {
            let compared = wide.len().min(*comparisons as usize);
            *comparisons -= compared as u32;
            let mut candidates = wide[..compared].iter().map(|i| &earlier[*i]);
            candidates.find(|(before, _)| covers(before, &values, &constants)).map(|(_, before)| *before)
        });
        let together = matches!(&values[..], [Values::Between(lo, hi)] if intervals.cover(lo, hi));
        match before {
            Some(before) => found.push(
                Diagnostic::warning("parser-transition", case.span, "this case is never reached")
                    .related(before.span, "an earlier case covers all its values"),
            ),
            None if together => found.push(
                Diagnostic::warning("parser-transition", case.span, "this case is never reached")
                    .note("earlier cases together cover all its values"),
            ),
            None => {
                if let [Values::Between(lo, hi)] = &values[..] {
                    intervals.add(lo.clone(), hi.clone());
                }
                match single {
                    Some(single) => _ = exact.insert(single, case),
                    None => wide.push(earlier.len()),
                }
                earlier.push((values, case));
            }
        }
    }
    let may_take = |values: &Values, constant: &Option<BigInt>| match constant {
        Some(n) => matches!(values, Values::Unknown) || values.has(n),
        None => true,
    };
    if let Some(key) = keys.first()
        && constants.iter().any(Option::is_some)
        && !earlier
            .iter()
            .any(|(values, _)| values.iter().zip(&constants).all(|(values, n)| may_take(values, n)))
    {
        let text = "no case matches this constant: the packet is rejected";
        found.push(Diagnostic::warning("parser-transition", key.span, text));
    }
    let takes_all = |case: &SelectCase| case.keysets.iter().all(|keyset| matches!(keyset, KeySet::Any));
    if let (Some((_, first)), Some((_, last)), Some(key)) = (earlier.first(), earlier.last(), keys.first())
        && takes_all(last)
        && earlier.iter().all(|(_, case)| case.target == first.target)
    {
        let text = format!("the transition of state `{}` does not depend on this `select`", state.name);
        found.push(
            Diagnostic::warning("parser-transition", key.span, text).note("all cases lead to the same state"),
        );
    }
}

/// Reports a `select` that has no case for some values. For a constant key only its value counts, which [`select`] checks.
fn incomplete(
    program: &Program,
    state: &State,
    (keys, cases): (&[Expr], &[SelectCase]),
    steps: &mut u32,
    found: &mut Vec<Diagnostic>,
) {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
    if keys.iter().any(|key| number(&key.kind).is_some()) || !has_gap(program, keys, cases, steps) {
        return;
    }
    // From the first key to the last, or only the first if they come from a macro.
    let span = match first.span.file == last.span.file && first.span.lo <= last.span.hi {
        true => Span { hi: last.span.hi, ..first.span },
        false => first.span,
    };
    let text = format!("the `select` of state `{}` has no case for some values", state.name);
    found.push(
        Diagnostic::warning("incomplete-select", span, text)
            .label("where none matches, parsing ends with `error.NoMatch`")
            .note("`default: accept;` or `default: reject;` as the last case covers all other values"),
    );
}

/// The values that a key set accepts for one key.
enum Values {
    All,
    /// From the first number to the last.
    Between(BigInt, BigInt),
    /// Those that agree with the first number in the bits of the second; the key has a `bit` type.
    Masked(BigInt, BigInt),
    Unknown,
}

impl Values {
    fn of(program: &Program, keyset: &KeySet, ty: &Type) -> Values {
        match keyset {
            KeySet::Any => Values::All,
            KeySet::Value(value) => match number(&value.kind) {
                Some(n) => Values::Between(n.clone(), n),
                None => Values::Unknown,
            },
            KeySet::Range(lo, hi) => match (number(&lo.kind), number(&hi.kind), width(program, ty)) {
                (Some(lo), Some(hi), Some(width)) if lo.is_zero() && hi.bits() == width && all_ones(&hi) => {
                    Values::All
                }
                (Some(lo), Some(hi), _) => Values::Between(lo, hi),
                _ => Values::Unknown,
            },
            KeySet::Mask(value, mask) => {
                match (number(&value.kind), number(&mask.kind), width(program, ty)) {
                    (_, Some(mask), Some(_)) if mask.is_zero() => Values::All,
                    (Some(value), Some(mask), Some(_)) => Values::Masked(value & &mask, mask),
                    _ => Values::Unknown,
                }
            }
            KeySet::ValueSet(_) => Values::Unknown,
        }
    }

    /// Returns the only value, if there is one.
    fn single(&self) -> Option<BigInt> {
        match self {
            Values::Between(lo, hi) if lo == hi => Some(lo.clone()),
            _ => None,
        }
    }

    /// True if it contains all values of another one.
    fn covers(&self, other: &Values) -> bool {
        match (self, other) {
            (Values::All, _) => true,
            (Values::Unknown, _) | (_, Values::All | Values::Unknown) => false,
            (Values::Between(lo, hi), Values::Between(a, b)) => lo <= a && b <= hi,
            // The bits outside the mask may all be 0; if they are 1, the number may be up to the type's maximum.
            (Values::Between(..), Values::Masked(..)) => false,
            (Values::Masked(..), Values::Between(a, b)) => a == b && self.has(a),
            (Values::Masked(value, mask), Values::Masked(other, other_mask)) => {
                &(mask & other_mask) == mask && &(other & mask) == value
            }
        }
    }

    fn has(&self, n: &BigInt) -> bool {
        match self {
            Values::All => true,
            Values::Between(lo, hi) => (lo..=hi).contains(&n),
            Values::Masked(value, mask) => &(n & mask) == value,
            Values::Unknown => false,
        }
    }
}

/// True if a case accepts everything that a later one would. For a constant key only its value counts.
fn covers(earlier: &[Values], later: &[Values], constants: &[Option<BigInt>]) -> bool {
    earlier.len() == later.len()
        && earlier.iter().zip(later).zip(constants).all(|((earlier, later), constant)| {
            earlier.covers(later) || constant.as_ref().is_some_and(|n| earlier.has(n))
        })
}

/// The numbers that several cases of one key accept together, as intervals that do not touch: the last number of each
/// interval by its first.
#[derive(Default)]
struct Intervals(BTreeMap<BigInt, BigInt>);

impl Intervals {
    fn cover(&self, lo: &BigInt, hi: &BigInt) -> bool {
        lo > hi || self.0.range(..=lo).next_back().is_some_and(|(_, last)| last >= hi)
    }

    fn add(&mut self, mut lo: BigInt, mut hi: BigInt) {
        if lo > hi {
            return;
        }
        while let Some((first, last)) = self.0.range(..=&hi + 1u8).next_back()
            && *last >= &lo - 1u8
        {
            let first = first.clone();
            lo = lo.min(first.clone());
            if let Some(last) = self.0.remove(&first) {
                hi = hi.max(last);
            }
        }
        self.0.insert(lo, hi);
    }
}

/// Returns the width of a `bit` type, also under another name.
fn width(program: &Program, ty: &Type) -> Option<u64> {
    match ty {
        Type::Bit(bits) => Some(u64::from(*bits)),
        Type::New(id) => width(program, &program.new_types[id.index()].ty),
        _ => None,
    }
}

fn all_ones(n: &BigInt) -> bool {
    (n & (n + 1u8)).is_zero()
}

/// Follows the transitions from `start`.
fn reachable(parser: &Parser, body: &ParserBody, found: &mut Vec<Diagnostic>) {
    let mut reached = vec![false; body.states.len()];
    let mut work = vec![Target::State(body.start)];
    let mut accepts = false;
    while let Some(target) = work.pop() {
        match target {
            Target::Accept => accepts = true,
            Target::Reject => {}
            Target::State(i) => {
                if std::mem::replace(&mut reached[i as usize], true) {
                    continue;
                }
                match &body.states[i as usize].transition {
                    Transition::Direct(target, _) => work.push(*target),
                    Transition::Select { cases, .. } => work.extend(cases.iter().map(|case| case.target)),
                }
            }
        }
    }
    for (state, reached) in body.states.iter().zip(reached) {
        if !reached {
            let text =
                format!("state `{}` is never entered: no transition from `start` leads to it", state.name);
            found.push(Diagnostic::warning("unreachable", state.span, text));
        }
    }
    if !accepts {
        let text = format!("parser `{}` never accepts a packet", parser.name);
        found.push(
            Diagnostic::warning("unreachable", parser.span, text)
                .note("no transition from `start` on leads to `accept`"),
        );
    }
}
