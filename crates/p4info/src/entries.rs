//! The entries that a program declares, as insertions.

use num_bigint::BigInt;
use num_traits::{One, Signed, Zero};
use p4jet_analysis::typed::{Entry, Expr, Key, KeySet};
use p4jet_syntax::diagnostic::Diagnostic;

use crate::annotations::find;
use crate::blocks::ScopeId;
use crate::generator::{FoundTable, Generator};
use crate::proto::config::Prefix;
use crate::proto::v1::{
    Action, ActionParam, Entity, EntityKind, Exact, FieldMatch, FieldMatchType, Lpm, Optional, Range,
    TableAction, TableActionType, TableEntry, Ternary, Update, UpdateType, WriteRequest,
};
use crate::types::padded;

/// Returns the entries of all tables in one batch.
pub(crate) fn initial(generator: &mut Generator<'_>, tables: &[FoundTable]) -> WriteRequest {
    let mut updates = Vec::new();
    for found in tables {
        let table = &generator.program.tables[found.id.index()];
        if find(&table.annotations, "hidden").is_some() {
            continue;
        }
        let table_id = generator.symbols.id(Prefix::Table, &found.name);
        let ids = generator.field_ids(table.keys.iter().map(|k| (&k.annotations[..], k.span)));
        let start = updates.len();
        for (i, entry) in table.entries.iter().enumerate() {
            let mut out = TableEntry { table_id, is_const: entry.is_const, ..TableEntry::default() };
            for ((set, key), id) in entry.keysets.iter().zip(&table.keys).zip(&ids) {
                if let Some(matches) = field_match(generator, set, key, entry, found.scope) {
                    out.r#match.push(FieldMatch { field_id: *id, field_match_type: Some(matches) });
                }
            }
            if table.keys.iter().any(|k| ["ternary", "range", "optional"].contains(&k.match_kind.as_str())) {
                out.priority = i32::try_from(table.shown_priority(i)).unwrap_or(i32::MAX);
            }
            let name = generator.action_name(entry.action.action, found.scope);
            let action_id = generator.symbols.id(Prefix::Action, &name);
            let params = generator.bound(&entry.action, found.scope);
            let params =
                params.into_iter().map(|(param_id, value)| ActionParam { param_id, value }).collect();
            out.action =
                Some(TableAction { r#type: Some(TableActionType::Action(Action { action_id, params })) });
            let entity = Some(Entity { entity: Some(EntityKind::TableEntry(out)) });
            updates.push(Update { r#type: UpdateType::Insert as i32, entity });
        }
        // In the order of p4c: the winner first.
        let descending = table.const_entries || table.largest_priority_wins;
        updates[start..].sort_by_key(|update| match &update.entity {
            Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) if descending => {
                -i64::from(entry.priority)
            }
            Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) => i64::from(entry.priority),
            _ => 0,
        });
    }
    WriteRequest { updates, ..WriteRequest::default() }
}

/// Returns the match of an entry for one field; `None` if it matches all values.
fn field_match(
    generator: &mut Generator<'_>,
    set: &KeySet,
    key: &Key,
    entry: &Entry,
    scope: ScopeId,
) -> Option<FieldMatchType> {
    let ty = generator.blocks.substituted(&key.expr.ty, scope);
    let width = generator.types.width(&ty).unwrap_or(0);
    let ones = (BigInt::one() << width) - 1;
    let mut number = |e: &Expr| generator.number(e, scope).map(|n| unsigned(n, width));
    let found = match (key.match_kind.as_str(), set) {
        (_, KeySet::ValueSet(_)) => return None,
        ("exact", KeySet::Value(value)) => {
            FieldMatchType::Exact(Exact { value: padded(&number(value)?, width) })
        }
        ("optional", KeySet::Value(value)) => {
            FieldMatchType::Optional(Optional { value: padded(&number(value)?, width) })
        }
        ("lpm" | "ternary" | "range" | "optional", KeySet::Any) => return None,
        ("lpm", KeySet::Value(value)) => {
            FieldMatchType::Lpm(Lpm { value: padded(&number(value)?, width), prefix_len: width as i32 })
        }
        ("lpm", KeySet::Mask(value, mask)) => {
            let (value, mask) = (number(value)?, number(mask)?);
            if mask.is_zero() {
                return None;
            }
            let prefix_len = width as i32 - mask.trailing_zeros().unwrap_or(0) as i32;
            FieldMatchType::Lpm(Lpm { value: padded(&(value & mask), width), prefix_len })
        }
        ("ternary", KeySet::Value(value)) => FieldMatchType::Ternary(Ternary {
            value: padded(&number(value)?, width),
            mask: padded(&ones, width),
        }),
        ("ternary", KeySet::Mask(value, mask)) => {
            let (value, mask) = (number(value)?, number(mask)?);
            if mask.is_zero() {
                return None;
            }
            FieldMatchType::Ternary(Ternary {
                value: padded(&(value & &mask), width),
                mask: padded(&mask, width),
            })
        }
        ("range", KeySet::Value(value)) => {
            let value = padded(&number(value)?, width);
            FieldMatchType::Range(Range { low: value.clone(), high: value })
        }
        ("range", KeySet::Range(low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            if low.is_zero() && high == ones {
                return None;
            }
            FieldMatchType::Range(Range { low: padded(&low, width), high: padded(&high, width) })
        }
        (_, KeySet::Any) if key.match_kind != "exact" => return None,
        (kind, _) => {
            let text =
                format!("an entry whose field `{}`, of match kind `{kind}`, is not one value,", key.name);
            let error = Diagnostic::unsupported(entry.span, format_args!("{text} for P4Runtime"));
            generator.types.errors.push(error);
            return None;
        }
    };
    Some(found)
}

/// Returns a value as the bits that it has: negative ones in two's complement.
fn unsigned(value: BigInt, width: u32) -> BigInt {
    if value.is_negative() { (BigInt::one() << width) + value } else { value }
}
