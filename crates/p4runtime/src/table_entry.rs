//! Table entries.

use crate::notes::check_metadata;
use crate::pipeline::{Key, Pipeline, Table};
use crate::refusal::{Code, Reason, Refusal, Result, choices};
use crate::value::{By, Outside, handle_of_id, id_of_handle, ones};
use crate::write::Writer;
use num_bigint::BigUint;
use num_traits::Zero;
use p4jet_control::schema::PRIORITY_MAX;
use p4jet_control::{Act, Cell, Control, DEFAULT_CELL, Direct, EntryRef, Noted, Update};
use p4jet_externs::{CounterValue, Rate, Rates};
use p4jet_ir::{InstanceId, MatchKind};
use p4jet_p4info::proto::config::{MeterType, Scope};
use p4jet_p4info::proto::v1::{
    self, Exact, FieldMatch, FieldMatchType, Lpm, Optional, Range, TableAction, TableActionType, Ternary,
    UpdateType,
};
use p4jet_tables::{ActionProfile, Entry, EntryHandle, KeyMatch};

/// The row of the direct counters and meters of a default entry.
pub(crate) const DEFAULT_ROW: u32 = 0;

/// A choice among matches, for messages.
fn field_choices(keys: &[Key]) -> String {
    choices(keys.iter().map(|key| (key.field.id, key.field.name.as_str())))
}

/// The refusal of one field of a key.
fn bad_match(key: &Key, why: &str) -> Refusal {
    let kind = key.kind.name();
    Refusal::invalid(Reason::Match, why).of(format!("match on {} ({kind})", key.field.shown()))
}

fn is_within(value: &BigUint, mask: &BigUint) -> bool {
    match (u128::try_from(value), u128::try_from(mask)) {
        (Ok(value), Ok(mask)) => value & !mask == 0,
        _ => (value & mask) == *value,
    }
}

impl Pipeline {
    /// Like [`Self::key`], for a key that is looked for. `None` if a string in it has no number, so that no entry has the key.
    pub(crate) fn wanted_key(&self, table: &Table, matches: &[FieldMatch]) -> Result<Option<Vec<KeyMatch>>> {
        match self.key(&table.name, &table.keys, matches, By::Search) {
            Ok(key) => Ok(Some(key)),
            Err(refusal) if refusal.code == Code::NotFound => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// The matches of a key, one for each field of the program's key. NOT_FOUND is the refusal of a string without a number; other faults
    /// come first.
    pub(crate) fn key(
        &self,
        name: &str,
        keys: &[Key],
        matches: &[FieldMatch],
        by: By,
    ) -> Result<Vec<KeyMatch>> {
        // A placeholder: no client's match has this form.
        let mut out = vec![KeyMatch::Optional(None); keys.len()];
        let mut absent = None;
        for (n, given) in matches.iter().enumerate() {
            let key = match keys.get(n) {
                Some(key) if key.field.id == given.field_id => key,
                _ => keys.iter().find(|key| key.field.id == given.field_id).ok_or_else(|| {
                    let fields = field_choices(keys);
                    let why =
                        format!("`{name}` has no key field with the id {}; fields: {fields}", given.field_id);
                    Refusal::invalid(Reason::Id, why)
                })?,
            };
            if out[key.place] != KeyMatch::Optional(None) {
                return Err(bad_match(key, "the field is given twice").of(format!("`{name}`")));
            }
            let found = self.field_match(key, given.field_match_type.as_ref(), by);
            out[key.place] = match found.map_err(|refusal| refusal.of(format!("`{name}`"))) {
                Err(refusal) if refusal.code == Code::NotFound => {
                    absent = Some(refusal);
                    KeyMatch::Exact(BigUint::ZERO)
                }
                found => found?,
            };
        }
        for key in keys {
            let slot = &mut out[key.place];
            if *slot != KeyMatch::Optional(None) {
                continue;
            }
            match key.kind {
                MatchKind::Exact => {
                    let why = "it is missing, and exact fields match one value each";
                    return Err(bad_match(key, why).of(format!("`{name}`")));
                }
                MatchKind::Lpm => *slot = KeyMatch::Lpm { value: BigUint::ZERO, prefix_len: 0 },
                MatchKind::Ternary => *slot = KeyMatch::Ternary { value: BigUint::ZERO, mask: BigUint::ZERO },
                MatchKind::Range => *slot = KeyMatch::Range { lo: BigUint::ZERO, hi: key.max.clone() },
                MatchKind::Optional => {}
            }
        }
        absent.map_or(Ok(out), Err)
    }

    fn field_match(&self, key: &Key, given: Option<&FieldMatchType>, by: By) -> Result<KeyMatch> {
        let field = &key.field;
        let read = |bytes: &[u8]| {
            let value = self.strings.read(field, bytes, by);
            value.map_err(|refusal| refusal.of(format!("match on {}", field.shown())))
        };
        // A translated value has no prefixes and no order, so only the whole value can be matched.
        let only_whole = |is_whole: bool| match field.outside {
            Outside::Same => Ok(()),
            _ if is_whole => Ok(()),
            _ => Err(bad_match(key, "the type is translated, so only one whole value can be matched")),
        };
        Ok(match (key.kind, given) {
            (MatchKind::Exact, Some(FieldMatchType::Exact(exact))) => KeyMatch::Exact(read(&exact.value)?),
            (MatchKind::Lpm, Some(FieldMatchType::Lpm(lpm))) => {
                let width = field.outer_width();
                let prefix_len = u32::try_from(lpm.prefix_len).ok().filter(|len| (1..=width).contains(len));
                let Some(prefix_len) = prefix_len else {
                    let found = lpm.prefix_len;
                    let why = match found {
                        0 => "a prefix length of 0 matches everything: omit the field".to_string(),
                        _ => format!("found the prefix length {found}, expected 1 to {width}"),
                    };
                    return Err(bad_match(key, &why));
                };
                only_whole(prefix_len == width)?;
                let value = read(&lpm.value)?;
                let prefix_len = if prefix_len == width { field.width } else { prefix_len };
                let host = field.width - prefix_len;
                if value.trailing_zeros().is_some_and(|zeros| zeros < u64::from(host)) {
                    let why = format!(
                        "the value {value:#x} has bits set behind the prefix, which has {prefix_len} of {} bits",
                        field.width
                    );
                    return Err(bad_match(key, &why));
                }
                KeyMatch::Lpm { value, prefix_len }
            }
            (MatchKind::Ternary, Some(FieldMatchType::Ternary(ternary))) => {
                let mask = crate::value::number(&ternary.mask, field.outer_width());
                let mask = mask.map_err(|why| {
                    let refusal = crate::value::bad_value(&ternary.mask, field.outer_width(), why);
                    refusal.of(format!("mask of {}", field.shown()))
                })?;
                if mask.is_zero() {
                    return Err(bad_match(key, "a mask of 0 matches everything: omit the field"));
                }
                let is_whole = mask == ones(field.outer_width());
                only_whole(is_whole)?;
                let value = read(&ternary.value)?;
                let mask = if is_whole { key.max.clone() } else { mask };
                if !is_within(&value, &mask) {
                    let why = format!("the value {value:#x} has bits set outside the mask {mask:#x}");
                    return Err(bad_match(key, &why));
                }
                KeyMatch::Ternary { value, mask }
            }
            (MatchKind::Range, Some(FieldMatchType::Range(range))) => {
                let (lo, hi) = (read(&range.low)?, read(&range.high)?);
                if lo > hi {
                    let why = format!("the low end {lo:#x} is above the high end {hi:#x}");
                    return Err(bad_match(key, &why));
                }
                if lo.is_zero() && hi == key.max {
                    return Err(bad_match(key, "the full range matches everything: omit the field"));
                }
                only_whole(lo == hi)?;
                KeyMatch::Range { lo, hi }
            }
            (MatchKind::Optional, Some(FieldMatchType::Optional(optional))) => {
                KeyMatch::Optional(Some(read(&optional.value)?))
            }
            (kind, given) => {
                let found = match given {
                    None => "no match",
                    Some(FieldMatchType::Exact(_)) => "an exact match",
                    Some(FieldMatchType::Lpm(_)) => "an lpm match",
                    Some(FieldMatchType::Ternary(_)) => "a ternary match",
                    Some(FieldMatchType::Range(_)) => "a range match",
                    Some(FieldMatchType::Optional(_)) => "an optional match",
                    Some(FieldMatchType::Other(_)) => "a match of another kind",
                };
                return Err(bad_match(key, &format!("found {found}, expected `{}`", kind.name())));
            }
        })
    }

    /// The matches of a key, in the order of the P4Info; fields that match everything are left out.
    pub(crate) fn show_key(&self, keys: &[Key], matches: &[KeyMatch]) -> Vec<FieldMatch> {
        let mut shown = Vec::with_capacity(keys.len());
        for key in keys {
            let show = |value: &BigUint| self.strings.show(&key.field, value);
            let outer_mask = |mask: &BigUint| match key.field.outside {
                Outside::Bits(width) if *mask == key.max => crate::value::shortest(&ones(width)),
                _ => crate::value::shortest(mask),
            };
            let found = match &matches[key.place] {
                KeyMatch::Exact(value) => FieldMatchType::Exact(Exact { value: show(value) }),
                KeyMatch::Lpm { prefix_len: 0, .. } | KeyMatch::Optional(None) => continue,
                KeyMatch::Lpm { value, prefix_len } => {
                    let whole = *prefix_len == key.field.width;
                    let prefix_len = if whole { key.field.outer_width() } else { *prefix_len };
                    FieldMatchType::Lpm(Lpm { value: show(value), prefix_len: prefix_len as i32 })
                }
                KeyMatch::Ternary { mask, .. } if mask.is_zero() => continue,
                KeyMatch::Ternary { value, mask } => {
                    FieldMatchType::Ternary(Ternary { value: show(value), mask: outer_mask(mask) })
                }
                KeyMatch::Range { lo, hi } if lo.is_zero() && *hi == key.max => continue,
                KeyMatch::Range { lo, hi } => FieldMatchType::Range(Range { low: show(lo), high: show(hi) }),
                KeyMatch::Optional(Some(value)) => FieldMatchType::Optional(Optional { value: show(value) }),
            };
            shown.push(FieldMatch { field_id: key.field.id, field_match_type: Some(found) });
        }
        shown
    }

    /// The priority in tables, where the smallest number wins.
    pub(crate) fn priority(&self, table: &Table, given: i32) -> Result<u32> {
        match (table.has_priority, u32::try_from(given)) {
            (true, Ok(given)) if given > 0 => Ok(PRIORITY_MAX - given),
            (false, Ok(0)) => Ok(0),
            (true, _) => {
                let why = format!(
                    "found the priority {given}, expected 1 to {PRIORITY_MAX}: a field of the key is ternary, range or optional"
                );
                Err(Refusal::invalid(Reason::Priority, why).of(format!("`{}`", table.name)))
            }
            (false, _) => {
                let why = format!("found the priority {given}, expected 0: its entries have no priority");
                Err(Refusal::invalid(Reason::Priority, why).of(format!("`{}`", table.name)))
            }
        }
    }

    /// An action of a table with its arguments, for an entry (or a member or one shot), or as the default action.
    pub(crate) fn action(
        &self,
        table: &Table,
        given: &v1::Action,
        as_default: bool,
    ) -> Result<p4jet_tables::Action> {
        let Some(listed) = table.actions.iter().find(|listed| listed.id == given.action_id) else {
            let all = table.actions.iter().map(|l| (l.id, self.actions[&l.id].name.as_str()));
            let why = format!(
                "`{}` has no action with the id {}; actions: {}",
                table.name,
                given.action_id,
                choices(all)
            );
            return Err(Refusal::invalid(Reason::Action, why));
        };
        let action = &self.actions[&listed.id];
        let denied = match (listed.scope, as_default) {
            (Scope::TableOnly, true) => Some("must not be the default action (@tableonly)"),
            (Scope::DefaultOnly, false) => Some("must only be the default action (@defaultonly)"),
            (Scope::GroupAction, _) => Some("is an action of groups only"),
            _ => None,
        };
        if let Some(denied) = denied {
            let why = format!("`{}` {denied} of `{}`", action.name, table.name);
            return Err(Refusal::new(Code::PermissionDenied, Reason::Action, why));
        }
        let data = self.arguments(action, given)?;
        if let Some(constraint) = action.constraint.as_ref().filter(|_| !as_default) {
            let values = action
                .params
                .iter()
                .map(|param| p4jet_p4info::constraints::Value::Number(data[param.place].clone()));
            let values: Vec<_> = values.collect();
            if let Err(violation) = constraint.check(&values, 0) {
                let why = format!("action `{}`: {violation}", action.name);
                return Err(Refusal::invalid(Reason::Constraint, why));
            }
        }
        Ok(p4jet_tables::Action { action: listed.index, data })
    }

    fn arguments(&self, action: &crate::pipeline::Action, given: &v1::Action) -> Result<Vec<BigUint>> {
        let name = &action.name;
        let params = || choices(action.params.iter().map(|p| (p.field.id, p.field.name.as_str())));
        let refuse = |why: String| Err(Refusal::invalid(Reason::Action, format!("action `{name}`: {why}")));
        let mut data = vec![BigUint::ZERO; action.params.len()];
        // In the usual order no bookkeeping is needed.
        let in_order = given.params.len() == action.params.len()
            && given.params.iter().zip(&action.params).all(|(given, param)| given.param_id == param.field.id);
        if !in_order {
            for (n, argument) in given.params.iter().enumerate() {
                let id = argument.param_id;
                if !action.params.iter().any(|param| param.field.id == id) {
                    return refuse(format!(
                        "there is no parameter with the id {id}; parameters: {}",
                        params()
                    ));
                }
                if given.params[..n].iter().any(|other| other.param_id == id) {
                    return refuse(format!("the parameter {id} is given twice"));
                }
            }
            if let Some(missing) =
                action.params.iter().find(|p| !given.params.iter().any(|g| g.param_id == p.field.id))
            {
                let (id, name) = (missing.field.id, &missing.field.name);
                return refuse(format!("the parameter {id} (`{name}`) is missing"));
            }
        }
        for (n, param) in action.params.iter().enumerate() {
            let argument = match in_order {
                true => &given.params[n],
                // Present, as checked before.
                false => match given.params.iter().find(|g| g.param_id == param.field.id) {
                    Some(argument) => argument,
                    None => continue,
                },
            };
            data[param.place] =
                self.strings.read(&param.field, &argument.value, By::Update).map_err(|refusal| {
                    refusal.of(format!("action `{name}`, parameter `{}`", param.field.name))
                })?;
        }
        Ok(data)
    }

    /// An action in the form of P4Runtime.
    pub(crate) fn show_action(&self, table: &Table, action: &p4jet_tables::Action) -> Option<v1::Action> {
        let listed = table.actions[(*table.by_index.get(action.action as usize)?)?];
        let declared = &self.actions[&listed.id];
        let params = declared.params.iter().map(|param| v1::ActionParam {
            param_id: param.field.id,
            value: self.strings.show(&param.field, &action.data[param.place]),
        });
        Some(v1::Action { action_id: listed.id, params: params.collect() })
    }

    /// An entry's action in the form of P4Runtime.
    pub(crate) fn show_act(
        &self,
        control: &Control,
        table: &Table,
        store: Option<&ActionProfile>,
        action: &p4jet_tables::Action,
    ) -> Option<TableAction> {
        let shown = match (action.as_member(), action.as_group()) {
            (Some(member), _) => TableActionType::ActionProfileMemberId(id_of_handle(member)),
            (_, Some(group)) => match store.and_then(|s| self.show_one_shot(control, table, s, group)) {
                Some(set) => TableActionType::ActionProfileActionSet(set),
                None => TableActionType::ActionProfileGroupId(id_of_handle(group)),
            },
            _ => TableActionType::Action(self.show_action(table, action)?),
        };
        Some(TableAction { r#type: Some(shown) })
    }

    /// Checks the constraint of a table.
    pub(crate) fn check_constraint(&self, table: &Table, key: &[KeyMatch], priority: i32) -> Result<()> {
        use p4jet_p4info::constraints::Value;
        let Some(constraint) = &table.constraint else { return Ok(()) };
        let values = table.keys.iter().map(|k| match &key[k.place] {
            KeyMatch::Exact(value) => Value::Number(value.clone()),
            KeyMatch::Lpm { value, prefix_len } => Value::Lpm(value.clone(), *prefix_len),
            KeyMatch::Ternary { value, mask } => Value::Ternary(value.clone(), mask.clone()),
            KeyMatch::Range { lo, hi } => Value::Range(lo.clone(), hi.clone()),
            KeyMatch::Optional(Some(value)) => Value::Ternary(value.clone(), k.max.clone()),
            KeyMatch::Optional(None) => Value::Ternary(BigUint::ZERO, BigUint::ZERO),
        });
        let values: Vec<Value> = values.collect();
        constraint.check(&values, priority.into()).map_err(|violation| {
            Refusal::invalid(Reason::Constraint, format!("`{}`: {violation}", table.name))
        })
    }
}

impl Table {
    /// The priority for clients, where the largest number wins.
    pub(crate) fn show_priority(&self, handle: EntryHandle, priority: u32) -> i32 {
        if !self.has_priority {
            return 0;
        }
        match self.of_program.get(handle.0 as usize) {
            Some((of_program, shown)) if *of_program == priority => *shown,
            _ => PRIORITY_MAX.saturating_sub(priority).max(1) as i32,
        }
    }

    /// The entry with a key and a client's priority; `priority` is the same in tables. If the program has one, too, packets meet
    /// that of the program.
    pub(crate) fn find(
        &self,
        control: &Control,
        key: &[KeyMatch],
        given: i32,
        priority: u32,
    ) -> Option<EntryHandle> {
        let table = control.switch().table(self.table);
        let of_program = self.declared_as(key, given).find(|handle| {
            let (priority, _) = self.of_program[handle.0 as usize];
            table.find(key, priority) == Some(*handle)
        });
        of_program.or_else(|| table.find(key, priority))
    }

    /// The entries that the program declares with a key and a client's priority, the first of which packets meet. They may have
    /// been deleted.
    pub(crate) fn declared_as(&self, key: &[KeyMatch], given: i32) -> impl Iterator<Item = EntryHandle> {
        let declared = if self.has_priority { self.by_key.get(key) } else { None };
        let shown = move |handle: &&u32| self.of_program[**handle as usize].1 == given;
        declared.into_iter().flatten().filter(shown).map(|handle| EntryHandle(*handle))
    }

    /// True if the program declares an entry, and no client has changed its action.
    pub(crate) fn is_of_program(&self, control: &Control, handle: EntryHandle, entry: &Entry) -> bool {
        let declared = &control.program().tables[self.table.index()].entries;
        declared.get(handle.0 as usize).is_some_and(|declared| {
            let action = &declared.action;
            declared.key == entry.key
                && (action.action, &action.data) == (entry.action.action, &entry.action.data)
        })
    }

    /// True if the program does not let the entry be changed.
    pub(crate) fn is_const(&self, control: &Control, handle: EntryHandle) -> bool {
        let declared = &control.program().tables[self.table.index()];
        self.is_const || p4jet_control::schema::is_const_entry(declared, handle.0)
    }
}

/// The rates of a configuration for a meter of this type.
///
/// With a single rate, the peak bucket holds the tokens of both buckets of RFC 2697: the committed bucket overflows into the excess
/// bucket.
pub(crate) fn rates(kind: MeterType, config: &v1::MeterConfig) -> Result<Rates> {
    let invalid = |why: String| Err(Refusal::invalid(Reason::Value, format!("meter configuration: {why}")));
    let v1::MeterConfig { cir, cburst, pir, pburst, eburst } = *config;
    let fields = [("cir", cir), ("cburst", cburst), ("pir", pir), ("pburst", pburst), ("eburst", eburst)];
    if let Some((name, found)) = fields.into_iter().find(|(_, value)| *value < 0) {
        return invalid(format!("`{name}` is {found}, expected 0 or more"));
    }
    if kind != MeterType::TwoRateThreeColor && (cir, cburst) != (pir, pburst) {
        return invalid(format!(
            "`pir` is {pir} and `pburst` {pburst}, expected those of `cir` {cir} and `cburst` {cburst}: the meter has a single rate"
        ));
    }
    if kind != MeterType::SingleRateThreeColor && eburst != 0 {
        return invalid(format!(
            "`eburst` is {eburst}, expected 0: it is of meters with a single rate and three colours"
        ));
    }
    if cir > pir {
        return invalid(format!("`cir` {cir} is above `pir` {pir}"));
    }
    let rate = |rate: i64, burst: u64| Rate { per_us: rate as f64 / 1e6, burst };
    Ok([rate(cir, cburst as u64), rate(pir, pburst as u64 + eburst as u64)])
}

/// The configuration with these rates. Numbers below 2^52 are returned exactly.
pub(crate) fn show_rates(kind: MeterType, rates: &Rates) -> v1::MeterConfig {
    let per_s = |rate: &Rate| (rate.per_us * 1e6).round() as i64;
    let [committed, peak] = rates;
    let (cburst, pburst) = (committed.burst as i64, peak.burst as i64);
    let (pburst, eburst) = match kind {
        MeterType::SingleRateThreeColor => (cburst, pburst.saturating_sub(cburst)),
        MeterType::TwoRateThreeColor | MeterType::SingleRateTwoColor => (pburst, 0),
    };
    v1::MeterConfig { cir: per_s(committed), cburst, pir: per_s(peak), pburst, eburst }
}

/// Refuses counts of colours other than 0, which can only be reset.
pub(crate) fn check_colours(data: &v1::MeterCounterData) -> Result<()> {
    let is_zero =
        |data: &Option<v1::CounterData>| data.as_ref().is_none_or(|d| *d == v1::CounterData::default());
    match [&data.green, &data.yellow, &data.red].into_iter().all(is_zero) {
        true => Ok(()),
        false => {
            let why = "the counts of a meter's colours can only be set to 0";
            Err(Refusal::invalid(Reason::Value, why))
        }
    }
}

/// The counts of a meter's colours in a cell; for a direct meter the cell is a row.
pub(crate) fn show_colours(control: &Control, meter: InstanceId, cell: u32) -> Option<v1::MeterCounterData> {
    let [green, yellow, red] = control.switch().state().meter_counts(meter.0, cell).ok()?.map(|count| {
        let (byte_count, packet_count) = (count.bytes as i64, count.packets as i64);
        Some(v1::CounterData { byte_count, packet_count })
    });
    Some(v1::MeterCounterData { green, yellow, red })
}

/// The value of a counter.
pub(crate) fn count(data: &v1::CounterData) -> Result<CounterValue> {
    match (u64::try_from(data.packet_count), u64::try_from(data.byte_count)) {
        (Ok(packets), Ok(bytes)) => Ok(CounterValue { packets, bytes }),
        _ => {
            let why = format!(
                "counter data: found {} packets and {} bytes, expected 0 or more",
                data.packet_count, data.byte_count
            );
            Err(Refusal::invalid(Reason::Value, why))
        }
    }
}

/// The refusal of a table's direct resource that it does not have.
fn no_direct(table: &Table, what: &str, field: &str) -> Refusal {
    let why = format!("`{}` has no direct {what}, so `{field}` must be unset", table.name);
    Refusal::invalid(Reason::Form, why)
}

/// True if an entry gives a direct resource.
fn has_direct(entry: &v1::TableEntry) -> bool {
    entry.counter_data.is_some() || entry.meter_config.is_some() || entry.meter_counter_data.is_some()
}

/// Refuses direct resources that no action of an entry uses. `actions` are indexes in the list of the program's table; `None` is every
/// action of the table.
fn check_used(
    table: &Table,
    entry: &v1::TableEntry,
    actions: impl FnOnce() -> Option<Vec<u32>>,
) -> Result<()> {
    if !has_direct(entry) {
        return Ok(());
    }
    let listed = |index: &u32| Some(&table.actions[(*table.by_index.get(*index as usize)?)?]);
    let of: Vec<_> = match &actions() {
        Some(actions) => actions.iter().filter_map(listed).collect(),
        None => table.actions.iter().collect(),
    };
    if of.is_empty() {
        // An empty one shot, or an action that only runtime commands know.
        return Ok(());
    }
    let unused = |field: &str, resource: &str| {
        let why = format!(
            "`{}`: `{field}` must be unset, because the action does not use the direct {resource}",
            table.name
        );
        Err(Refusal::invalid(Reason::Form, why))
    };
    if entry.counter_data.is_some() && !of.iter().any(|listed| listed.counts) {
        return unused("counter_data", "counter");
    }
    if of.iter().any(|listed| listed.measures) {
        return Ok(());
    }
    match (&entry.meter_config, &entry.meter_counter_data) {
        (Some(_), _) => unused("meter_config", "meter"),
        (None, Some(_)) => unused("meter_counter_data", "meter"),
        (None, None) => Ok(()),
    }
}

/// The action of an entry, before it has an effect.
enum Planned<'e> {
    Act(Act),
    /// A one shot, whose members do not exist yet.
    Set(&'e v1::ActionProfileActionSet, Vec<p4jet_tables::Action>),
}

impl Planned<'_> {
    /// The actions that packets may run, by their indexes; `None` if they may change without the entry.
    fn actions(&self) -> Option<Vec<u32>> {
        match self {
            Planned::Act(Act::Action(action)) => Some(vec![action.action]),
            Planned::Act(_) => None,
            Planned::Set(_, actions) => Some(actions.iter().map(|action| action.action).collect()),
        }
    }
}

/// The parts of an update of an entry besides key and action.
struct Beside {
    timeout_ms: Option<u32>,
    meter: Option<(InstanceId, Option<Rates>)>,
    counter: Option<(InstanceId, CounterValue)>,
    /// The meter whose counts are set to 0.
    colours: Option<InstanceId>,
    /// The parts that are kept in a note.
    noted: v1::TableEntry,
}

impl Writer<'_> {
    /// Applies an update of a table entry.
    pub(crate) fn table_entry(&mut self, kind: UpdateType, entry: &v1::TableEntry) -> Result<()> {
        let pipeline = self.pipeline;
        let table = pipeline.table(entry.table_id)?;
        self.role.check(table.id, &table.name, table.role.as_deref())?;
        if entry.is_const {
            let why = "`is_const` must be false: only the program makes const entries";
            return Err(Refusal::invalid(Reason::Form, why).of(format!("`{}`", table.name)));
        }
        if entry.time_since_last_hit.is_some() && kind != UpdateType::Delete {
            let why = "has_time_since_last_hit must not be set in WriteRequest";
            return Err(Refusal::invalid(Reason::Timeout, why));
        }
        if entry.is_default_action {
            return self.default_entry(kind, table, entry);
        }
        if table.keys.is_empty() {
            let why = format!("`{}` has no key, so it has no entries but the default entry", table.name);
            return Err(Refusal::invalid(Reason::Form, why));
        }
        if kind == UpdateType::Insert {
            let key = pipeline.key(&table.name, &table.keys, &entry.r#match, By::Update)?;
            let priority = pipeline.priority(table, entry.priority)?;
            return self.insert(table, entry, key, priority);
        }
        let key = pipeline.wanted_key(table, &entry.r#match)?;
        let priority = pipeline.priority(table, entry.priority)?;
        match kind {
            UpdateType::Modify => self.modify(table, entry, key.as_deref(), priority),
            _ => {
                let handle = self.found(table, key.as_deref(), entry.priority, priority)?;
                self.check_changeable(table, handle)?;
                self.delete(table, handle)
            }
        }
    }

    /// The entry with a key ([`Pipeline::wanted_key`]).
    pub(crate) fn found(
        &self,
        table: &Table,
        key: Option<&[KeyMatch]>,
        given: i32,
        priority: u32,
    ) -> Result<EntryHandle> {
        key.and_then(|key| table.find(&self.control, key, given, priority)).ok_or_else(|| {
            let why = match table.has_priority {
                true => format!("`{}` has no entry with this key and the priority {given}", table.name),
                false => format!("`{}` has no entry with this key", table.name),
            };
            Refusal::new(Code::NotFound, Reason::Absent, why)
        })
    }

    fn check_changeable(&self, table: &Table, handle: EntryHandle) -> Result<()> {
        match table.is_const(&self.control, handle) {
            true => {
                let why = format!("`{}`: the entry is const in the program", table.name);
                Err(Refusal::new(Code::PermissionDenied, Reason::Const, why))
            }
            false => Ok(()),
        }
    }

    fn insert(
        &mut self,
        table: &Table,
        entry: &v1::TableEntry,
        key: Vec<KeyMatch>,
        priority: u32,
    ) -> Result<()> {
        let Some(action) = &entry.action else {
            let why = format!("`{}`: `action` is unset, and an entry needs one", table.name);
            return Err(Refusal::invalid(Reason::Action, why));
        };
        let planned = self.planned(table, action)?;
        let is_set = matches!(planned, Planned::Set(..));
        let mut beside = self.beside(table, entry)?;
        check_used(table, entry, || planned.actions())?;
        if table.idle_timeout {
            // The age of an entry without timeout counts from here, too.
            beside.timeout_ms.get_or_insert(0);
        }
        self.pipeline.check_constraint(table, &key, entry.priority)?;
        if table.is_const {
            let why = format!("`{}` has const entries only", table.name);
            return Err(Refusal::new(Code::PermissionDenied, Reason::Const, why));
        }
        if (!table.of_program.is_empty() || is_set)
            && table.find(&self.control, &key, entry.priority, priority).is_some()
        {
            let why = format!("`{}`: an entry with this key already exists", table.name);
            return Err(Refusal::new(Code::AlreadyExists, Reason::Exists, why));
        }
        let act = self.act(table, planned)?;
        let insert = Update::Insert { table: table.table, key, priority, act };
        let meter = beside.meter.take().and_then(|(meter, rates)| Some((meter, rates?)));
        let handle = self.batch.insert(insert, &Direct { counter: beside.counter.take(), meter })?;
        self.set_beside(table, EntryHandle(handle.unwrap_or(0)), &beside)
    }

    fn modify(
        &mut self,
        table: &Table,
        entry: &v1::TableEntry,
        key: Option<&[KeyMatch]>,
        priority: u32,
    ) -> Result<()> {
        let planned = entry.action.as_ref().map(|action| self.planned(table, action)).transpose()?;
        let mut beside = self.beside(table, entry)?;
        if let Some(planned) = &planned {
            check_used(table, entry, || planned.actions())?;
        }
        key.map_or(Ok(()), |key| self.pipeline.check_constraint(table, key, entry.priority))?;
        let handle = self.found(table, key, entry.priority, priority)?;
        if planned.is_none() {
            check_used(table, entry, || {
                let now = self.control.switch().table(table.table).get(handle)?.action;
                (now.as_member().is_none() && now.as_group().is_none()).then(|| vec![now.action])
            })?;
        }
        // MODIFY gives the full state: unset parts return to their defaults.
        if table.idle_timeout {
            beside.timeout_ms.get_or_insert(0);
        }
        if let Some(meter) = table.meter {
            let (_, rates) = beside.meter.get_or_insert((meter, None));
            // Unchanged rates keep their tokens.
            if self.control.meter_rates(meter, handle.0).is_ok_and(|now| now == *rates) {
                beside.meter = None;
            }
        }
        let Some(planned) = planned else { return self.set_beside(table, handle, &beside) };
        self.check_changeable(table, handle)?;
        let before = self.one_shot_of(table, handle);
        // A full profile has room for the new one shot when the members of the old one are gone.
        let emptied = match &planned {
            Planned::Set(set, _) => before.filter(|_| !self.has_room(table, set)),
            Planned::Act(_) => None,
        };
        let meter = beside.meter.take();
        // W-21: no packet has the new action and the old rates, or an empty one shot.
        let is_one_step = emptied.is_none() && meter.is_none();
        let change = |writer: &mut Self| {
            if let Some(group) = emptied {
                writer.empty_one_shot(table, group)?;
            }
            let act = writer.act(table, planned)?;
            writer.make(Update::Modify { table: table.table, entry: handle.0.into(), act })?;
            if let Some((meter, rates)) = meter {
                let cell = Cell::Entry(EntryRef::from(handle.0));
                writer.make(Update::SetMeter { meter, cell, rates })?;
            }
            before.map_or(Ok(()), |group| writer.delete_one_shot(table, group))
        };
        if is_one_step {
            change(self)?
        } else {
            self.together(change)?
        }
        self.set_beside(table, handle, &beside)
    }

    fn delete(&mut self, table: &Table, handle: EntryHandle) -> Result<()> {
        let group = self.one_shot_of(table, handle);
        self.make(Update::Delete { table: table.table, entry: handle.0.into() })?;
        group.map_or(Ok(()), |group| self.delete_one_shot(table, group))
    }

    /// Creates an entry's action.
    fn act(&mut self, table: &Table, planned: Planned<'_>) -> Result<Act> {
        match planned {
            Planned::Act(act) => Ok(act),
            Planned::Set(set, actions) => self.one_shot(table, set, actions),
        }
    }

    /// Checks the form of an entry's action.
    fn planned<'e>(&self, table: &Table, action: &'e TableAction) -> Result<Planned<'e>> {
        let wrong = |found: &str, expected: &str| {
            let why = format!("`{}`: the action is {found}, expected {expected}", table.name);
            Err(Refusal::invalid(Reason::Action, why))
        };
        let absent_id = |kind: &str| {
            let why = format!("`{}`: the {kind} id is 0, expected 1 or more", table.name);
            Err(Refusal::invalid(Reason::Action, why))
        };
        let profile = table.profile.and_then(|id| self.pipeline.profiles.get(&id));
        let expected = match profile {
            None => "`action`",
            Some(profile) if profile.selector => {
                "`action_profile_member_id`, `action_profile_group_id` or `action_profile_action_set`"
            }
            Some(_) => "`action_profile_member_id`",
        };
        match (&action.r#type, profile) {
            (None, _) => wrong("unset", expected),
            (Some(TableActionType::Action(action)), None) => {
                Ok(Planned::Act(Act::Action(self.pipeline.action(table, action, false)?)))
            }
            (Some(TableActionType::Action(_)), Some(_)) => wrong("`action`", expected),
            (Some(TableActionType::ActionProfileMemberId(id)), Some(_)) => match id {
                0 => absent_id("member"),
                id => {
                    self.check_named(table)?;
                    Ok(Planned::Act(Act::Member(handle_of_id(*id).into())))
                }
            },
            (Some(TableActionType::ActionProfileGroupId(id)), Some(profile)) if profile.selector => {
                match id {
                    0 => absent_id("group"),
                    id => {
                        self.check_named(table)?;
                        Ok(Planned::Act(Act::Group(handle_of_id(*id).into())))
                    }
                }
            }
            (Some(TableActionType::ActionProfileMemberId(_)), None) => wrong("a member", expected),
            (Some(TableActionType::ActionProfileGroupId(_)), _) => wrong("a group", expected),
            (Some(TableActionType::ActionProfileActionSet(set)), Some(profile)) if profile.selector => {
                Ok(Planned::Set(set, self.one_shot_actions(table, profile, set)?))
            }
            (Some(TableActionType::ActionProfileActionSet(_)), _) => wrong("an action set", expected),
        }
    }

    /// Checks the parts of an update besides key and action.
    fn beside(&self, table: &Table, entry: &v1::TableEntry) -> Result<Beside> {
        let timeout_ms = self.timeout(table, entry.idle_timeout_ns)?;
        let meter = match (&entry.meter_config, table.meter) {
            (None, _) => None,
            (Some(_), None) => return Err(no_direct(table, "meter", "meter_config")),
            (Some(config), Some(meter)) => Some((meter, Some(rates(table.meter_type, config)?))),
        };
        let counter = match (&entry.counter_data, table.counter) {
            (None, _) => None,
            (Some(_), None) => return Err(no_direct(table, "counter", "counter_data")),
            (Some(data), Some(counter)) => Some((counter, count(data)?)),
        };
        let colours = match (&entry.meter_counter_data, table.meter) {
            (None, _) => None,
            (Some(_), None) => return Err(no_direct(table, "meter", "meter_counter_data")),
            (Some(data), Some(meter)) => check_colours(data).map(|()| Some(meter))?,
        };
        check_metadata(&entry.metadata)?;
        let is_whole = entry.idle_timeout_ns % 1_000_000 == 0;
        let noted = v1::TableEntry {
            controller_metadata: entry.controller_metadata,
            metadata: entry.metadata.clone(),
            idle_timeout_ns: if is_whole { 0 } else { entry.idle_timeout_ns },
            ..v1::TableEntry::default()
        };
        Ok(Beside { timeout_ms, meter, counter, colours, noted })
    }

    /// The idle time in whole milliseconds, rounded up; `None` if there is none.
    fn timeout(&self, table: &Table, ns: i64) -> Result<Option<u32>> {
        match ns {
            0 => Ok(None),
            _ if !table.idle_timeout => {
                // A test suite of clients compares these words.
                let why = "idle_timeout_ns must be set to 0 for tables which do not support idle timeout";
                Err(Refusal::invalid(Reason::Timeout, why))
            }
            ..0 => {
                let why = format!("`{}`: `idle_timeout_ns` is {ns}, expected 0 or more", table.name);
                Err(Refusal::invalid(Reason::Timeout, why))
            }
            _ => match u32::try_from((ns as u64).div_ceil(1_000_000)) {
                Ok(ms) => Ok(Some(ms)),
                Err(_) => {
                    let why = format!(
                        "`{}`: `idle_timeout_ns` is {ns}, expected at most {}",
                        table.name,
                        u64::from(u32::MAX) * 1_000_000
                    );
                    Err(Refusal::new(Code::OutOfRange, Reason::Timeout, why))
                }
            },
        }
    }

    fn set_beside(&mut self, table: &Table, handle: EntryHandle, beside: &Beside) -> Result<()> {
        let entry = || EntryRef::from(handle.0);
        if let Some(timeout_ms) = beside.timeout_ms {
            self.make(Update::SetTimeout { table: table.table, entry: entry(), timeout_ms })?;
        }
        if let Some((meter, rates)) = beside.meter {
            self.make(Update::SetMeter { meter, cell: Cell::Entry(entry()), rates })?;
        }
        if let Some((counter, value)) = beside.counter {
            self.make(Update::WriteCounter { counter, cell: Cell::Entry(entry()), value })?;
        }
        if let Some(meter) = beside.colours {
            self.reset_colours(meter, self.control.switch().table(table.table).row_of(handle));
        }
        self.set_note(Noted::Entry(table.table, handle.0), &beside.noted)
    }

    /// Sets the counts of a row's direct meter to 0.
    pub(crate) fn reset_colours(&self, meter: InstanceId, row: u32) {
        // The cell exists because the row does.
        let _ = self.control.switch().state().meter_reset_counts(meter.0, row);
    }

    fn default_entry(&mut self, kind: UpdateType, table: &Table, entry: &v1::TableEntry) -> Result<()> {
        let invalid = |why: &str| {
            Err(Refusal::invalid(Reason::Form, why).of(format!("default entry of `{}`", table.name)))
        };
        if kind != UpdateType::Modify {
            return invalid("it can only be modified: it is always there");
        }
        if !entry.r#match.is_empty() {
            return invalid("`match` must be empty");
        }
        if entry.priority != 0 {
            return invalid("`priority` must be 0");
        }
        if entry.idle_timeout_ns != 0 {
            return invalid("`idle_timeout_ns` must be 0");
        }
        let mut beside = self.beside(table, entry)?;
        if let Some(meter) = table.meter {
            beside.meter.get_or_insert((meter, None));
        }
        let constant = match (table.const_default, table.profile) {
            (true, _) => Some("has a const default action"),
            (false, Some(_)) => {
                Some("has an action profile, so its default action is constant for P4Runtime")
            }
            (false, None) => None,
        };
        if let Some(why) = constant {
            // Z-6: an update of only the direct resources does not change the action.
            if entry.action.is_some() || !has_direct(entry) {
                let why = format!("`{}` {why}", table.name);
                return Err(Refusal::new(Code::PermissionDenied, Reason::Const, why));
            }
            check_used(table, entry, || Some(vec![table.default]))?;
            return self.set_default_beside(table, &beside);
        }
        let update = match &entry.action {
            None => {
                // The state after the start.
                check_used(table, entry, || Some(vec![table.default]))?;
                if let Some(counter) = table.counter {
                    beside.counter.get_or_insert((counter, CounterValue::default()));
                }
                Update::ResetDefault(table.table)
            }
            Some(TableAction { r#type: Some(TableActionType::Action(action)) }) => {
                let action = self.pipeline.action(table, action, true)?;
                check_used(table, entry, || Some(vec![action.action]))?;
                let act = Act::Action(action);
                Update::SetDefault { table: table.table, act }
            }
            Some(_) => return invalid("the action is unset or of another kind, expected `action`"),
        };
        if beside.meter.is_none() {
            self.make(update)?;
            return self.set_default_beside(table, &beside);
        }
        // W-21: no packet has the new action and the old rates.
        self.together(|writer| {
            writer.make(update)?;
            writer.set_default_beside(table, &beside)
        })
    }

    /// Sets the parts of a default entry besides the action.
    fn set_default_beside(&mut self, table: &Table, beside: &Beside) -> Result<()> {
        let cell = Cell::Index(DEFAULT_CELL);
        if let Some((meter, rates)) = beside.meter {
            self.make(Update::SetMeter { meter, cell: cell.clone(), rates })?;
        }
        if let Some((counter, value)) = beside.counter {
            self.make(Update::WriteCounter { counter, cell, value })?;
        }
        if let Some(meter) = beside.colours {
            self.reset_colours(meter, DEFAULT_ROW);
        }
        self.set_note(Noted::Default(table.table), &beside.noted)
    }
}
