//! Parser states and select cases that are never reached, and states that end without saying so.

use crate::typed::*;
use num_bigint::BigInt;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::HashMap;

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
                Transition::Select { cases, .. } => select(cases, found),
            }
        }
        reachable(parser, body, found);
    }
}

fn select(cases: &[SelectCase], found: &mut Vec<Diagnostic>) {
    let mut all: Option<Span> = None;
    let mut values: HashMap<Vec<&BigInt>, Span> = HashMap::new();
    for case in cases {
        let earlier = all.or_else(|| values.get(&numbers(&case.keysets)?).copied());
        if let Some(earlier) = earlier {
            let text = "this case is never reached";
            found.push(
                Diagnostic::warning("parser-transition", case.span, text)
                    .related(earlier, "an earlier one takes all that it would"),
            );
        }
        if case.keysets.iter().all(|keyset| matches!(keyset, KeySet::Any)) {
            all.get_or_insert(case.span);
        } else if let Some(numbers) = numbers(&case.keysets) {
            values.entry(numbers).or_insert(case.span);
        }
    }
}

/// The values of a case that names one for each key.
fn numbers(keysets: &[KeySet]) -> Option<Vec<&BigInt>> {
    let number = |keyset| match keyset {
        &KeySet::Value(Expr { kind: ExprKind::Int(ref n), .. }) => Some(n),
        _ => None,
    };
    keysets.iter().map(number).collect()
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
