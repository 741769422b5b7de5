//! Parser states and select cases that are never reached, and states that end without saying so.

use crate::typed::*;
use num_bigint::BigInt;
use num_traits::Zero;
use p4jet_syntax::diagnostic::Diagnostic;

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    for parser in &program.parsers {
        let Some(body) = &parser.body else { continue };
        for state in &body.states {
            match &state.transition {
                Transition::Direct(Target::Reject, span) if *span == state.span => {
                    let text = format!("state `{}` has no transition and rejects the packet", state.name);
                    found.push(
                        Diagnostic::warning("parser-transition", state.span, text)
                            .note("`transition reject;` says so"),
                    );
                }
                Transition::Direct(..) => {}
                Transition::Select { keys, cases, .. } => select(program, state, keys, cases, found),
            }
        }
        reachable(parser, body, found);
    }
}

fn select(
    program: &Program,
    state: &State,
    keys: &[Expr],
    cases: &[SelectCase],
    found: &mut Vec<Diagnostic>,
) {
    let mut earlier: Vec<(Vec<Values>, &SelectCase)> = Vec::new();
    let constants: Vec<Option<BigInt>> = keys.iter().map(|key| number(&key.kind)).collect();
    for case in cases {
        let values: Vec<Values> = match &case.keysets[..] {
            // `default` alone stands for all keys.
            [KeySet::Any] => keys.iter().map(|_| Values::All).collect(),
            keysets => {
                keysets.iter().zip(keys).map(|(keyset, key)| Values::of(program, keyset, &key.ty)).collect()
            }
        };
        match earlier.iter().find(|(before, _)| covers(before, &values, &constants)) {
            Some((_, before)) => found.push(
                Diagnostic::warning("parser-transition", case.span, "this case is never reached")
                    .related(before.span, "an earlier one takes all that it would"),
            ),
            None if covered_together(&earlier, &values) => found.push(
                Diagnostic::warning("parser-transition", case.span, "this case is never reached")
                    .note("earlier ones together take all that it would"),
            ),
            None => earlier.push((values, case)),
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
        let text = "no case takes this constant: the packet is rejected";
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

/// What a key set takes of one key.
enum Values {
    All,
    /// From the first to the last.
    Between(BigInt, BigInt),
    /// Those that agree with the first in the bits of the second, which are of a `bit` type.
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

    /// Whether it has all that another one has.
    fn covers(&self, other: &Values) -> bool {
        match (self, other) {
            (Values::All, _) => true,
            (Values::Unknown, _) | (_, Values::All | Values::Unknown) => false,
            (Values::Between(lo, hi), Values::Between(a, b)) => lo <= a && b <= hi,
            // All bits outside of the mask may be 0; with them 1 it may be any number up to the type's last.
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

/// Whether a case takes all that a later one would. Of a key that is constant only its value counts.
fn covers(earlier: &[Values], later: &[Values], constants: &[Option<BigInt>]) -> bool {
    earlier.len() == later.len()
        && earlier.iter().zip(later).zip(constants).all(|((earlier, later), constant)| {
            earlier.covers(later) || constant.as_ref().is_some_and(|n| earlier.has(n))
        })
}

/// Whether several cases of one key take all numbers between two. Who writes `default` may do so to be safe.
fn covered_together(earlier: &[(Vec<Values>, &SelectCase)], later: &[Values]) -> bool {
    let [Values::Between(first, last)] = later else { return false };
    let mut intervals: Vec<(&BigInt, &BigInt)> = earlier
        .iter()
        .filter_map(|(values, _)| match &values[..] {
            [Values::Between(lo, hi)] => Some((lo, hi)),
            _ => None,
        })
        .collect();
    intervals.sort();
    let mut next = first.clone();
    for (lo, hi) in intervals {
        if *lo <= next && *hi >= next {
            next = hi + 1;
        }
    }
    next > *last
}

/// The number that stands for a value in comparisons.
fn number(value: &ExprKind) -> Option<BigInt> {
    match value {
        ExprKind::Int(n) => Some(n.clone()),
        ExprKind::Bool(b) => Some(BigInt::from(u8::from(*b))),
        ExprKind::EnumMember(n) | ExprKind::Error(n) => Some(BigInt::from(*n)),
        _ => None,
    }
}

/// The width of a `bit` type, whatever its name.
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
