//! Parser value sets: nameless tables in which a hit means that the value is in the set.

use super::{Command, Line, LineParser, Parsed, named};
use crate::error::LineError;
use p4jet_control::value::{key_match, ones, parse_value};
use p4jet_control::{KeyField, KeyMatch, MatchKind, ObjectKind, TableId, Update};

/// A field with exactly this value.
fn exactly(key: &KeyField, value: num_bigint::BigUint) -> KeyMatch {
    match key.kind {
        MatchKind::Exact => KeyMatch::Exact(value),
        MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: key.width },
        MatchKind::Ternary => KeyMatch::Ternary { value, mask: ones(key.width) },
        MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
        MatchKind::Optional => KeyMatch::Optional(Some(value)),
    }
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn value_set_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        if line.spec.name == "show_pvs" {
            line.ends_after(1)?;
            return Ok(Command::ShowValueSets);
        }
        let set =
            named(self.schema.names(ObjectKind::ValueSet), line.get(1, "a parser value set name")?, TableId)?
                .id;
        let command = match line.spec.name {
            "pvs_get" => Command::ValueSetRead(set),
            "pvs_clear" => Update::ClearValueSet(set).into(),
            name => {
                let key = self.set_member(line, set)?;
                return Ok(match name {
                    "pvs_add" => Update::AddToValueSet { set, key }.into(),
                    _ => Update::RemoveFromValueSet { set, key }.into(),
                });
            }
        };
        line.ends_after(2)?;
        Ok(command)
    }

    /// One word for all fields together, the first in the highest bits, or one for each, as in a table's key.
    fn set_member(&self, line: &Line<'_, 'a>, set: TableId) -> Parsed<Vec<KeyMatch>> {
        let keys = self.schema.key(set);
        let wrong =
            |at: usize, why: String| LineError::new(format!("Error: {why}")).at(line.tokens[at].span());
        let first = line.get(2, "a value")?;
        if line.tokens.len() > 3 {
            let mut key = Vec::new();
            for (i, field) in keys.iter().enumerate() {
                let token = line.get(2 + i, &format!("a value for {}", field.name))?;
                let exact = parse_value(token.text, field.width).map(|value| exactly(field, value));
                key.push(exact.or_else(|_| key_match(field, token.text)).map_err(|why| wrong(2 + i, why))?);
            }
            line.ends_after(2 + keys.len())?;
            return Ok(key);
        }
        let width = keys.iter().map(|key| key.width).sum();
        let whole = parse_value(first.text, width);
        match (whole, keys) {
            (Ok(mut value), keys) => {
                let mut key = Vec::new();
                for field in keys.iter().rev() {
                    key.insert(0, exactly(field, &value & ones(field.width)));
                    value >>= field.width;
                }
                Ok(key)
            }
            (Err(_), [field]) => Ok(vec![key_match(field, first.text).map_err(|why| wrong(2, why))?]),
            (Err(why), _) => Err(wrong(2, why)),
        }
    }
}
