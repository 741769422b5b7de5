//! Keys that do not depend on the packet, and entries whose order or bits are misleading.

use super::flow::path;
use crate::typed::*;
use num_bigint::BigInt;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::HashMap;

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    for table in &program.tables {
        for key in &table.keys {
            if is_constant(&key.expr) {
                let text =
                    format!("a key of table `{}` is constant: it is the same for all packets", table.name);
                found.push(Diagnostic::warning("mismatch", key.expr.span, text));
            }
        }
        priorities(table, found);
        for entry in &table.entries {
            for ((keyset, span), key) in entry.keysets.iter().zip(&entry.keyset_spans).zip(&table.keys) {
                masked_off(program, keyset, *span, key, found);
            }
        }
    }
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::EnumMember(_) | ExprKind::Error(_) => true,
        ExprKind::Cast(inner) => is_constant(inner),
        _ => false,
    }
}

/// Bits of a value outside its mask do not matter; in P4Runtime they must be 0.
fn masked_off(program: &Program, keyset: &KeySet, span: Span, key: &Key, found: &mut Vec<Diagnostic>) {
    if let KeySet::Mask(Expr { kind: ExprKind::Int(value), .. }, Expr { kind: ExprKind::Int(mask), .. }) =
        keyset
        && value & mask != *value
    {
        let text = format!("bits of the value for `{}` lie outside of its mask", path(program, &key.expr));
        let kept: BigInt = value & mask;
        found.push(
            Diagnostic::warning("mismatch", span, text)
                .note(format!("they match nothing: the value counts as {kept:#x}")),
        );
    }
}

/// P4_16 allows any priorities of entries, but equal priorities, or entries that are not listed in the order in which
/// they are tried, are rarely intended.
fn priorities(table: &Table, found: &mut Vec<Diagnostic>) {
    let mut first: HashMap<&BigInt, Span> = HashMap::new();
    let mut previous: Option<(&BigInt, Span)> = None;
    let mut ordered = true;
    for entry in &table.entries {
        let Some(priority) = &entry.priority else { continue };
        if let Some(earlier) = first.insert(priority, entry.span) {
            let text = format!("two entries of table `{}` have priority {priority}", table.name);
            found.push(
                Diagnostic::warning("duplicate-priorities", entry.span, text)
                    .related(earlier, "the other is here")
                    .note("which of them wins, if both match, is not defined"),
            );
        }
        if let Some((before, place)) = previous
            && ordered
            && (if table.largest_priority_wins { priority > before } else { priority < before })
        {
            ordered = false;
            let text = format!("this entry, of priority {priority}, is tried before the one above it");
            found.push(
                Diagnostic::warning("entries-out-of-priority-order", entry.span, text)
                    .related(place, format!("this one has priority {before}")),
            );
        }
        previous = Some((priority, entry.span));
    }
}
