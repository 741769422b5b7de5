//! What a client would lose of its state if another P4Info, and perhaps another program, came in the place of its own.
//!
//! `p4jet_dataplane` keeps state whose names, widths and units agree, and reports the rest. This module compares what only P4Infos
//! have: strings, names of members of enums, types of meters, digests and constraints.

use crate::notes::note;
use crate::pipeline::{Action, Key, Param, Pipeline, Profile, Register, Table};
use crate::profiles::{check_noted, total_size};
use crate::refusal::{Reasons, cut};
use crate::table_entry::{DEFAULT_ROW, rates, show_rates};
use crate::value::{Field, Outside};
use num_bigint::BigUint;
use p4jet_control::{Control, Noted};
use p4jet_externs::Rates;
use p4jet_ir::{InstanceId, TableId};
use p4jet_p4info::constraints::Constraint;
use p4jet_p4info::proto::config::{DataType, MeterType};
use p4jet_p4info::proto::v1::{ActionProfileGroup, DataValue, P4Data};
use p4jet_tables::{Entry, EntryHandle, KeyMatch};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes of a URI in a message.
const URI_BYTES: usize = 64;

/// The objects of the new P4Info by name.
struct New<'a> {
    pipeline: &'a Pipeline,
    tables: HashMap<&'a str, &'a Table>,
    actions: HashMap<&'a str, &'a Action>,
}

fn by_name<T>(all: &BTreeMap<u32, T>, name: impl Fn(&T) -> &str) -> HashMap<&str, &T> {
    all.values().map(|of| (name(of), of)).collect()
}

/// An action whose arguments would change, or may violate a constraint.
struct Changed<'a> {
    name: &'a str,
    /// Parameters that lose their strings, with what they have in the new P4Info.
    strings: Vec<(&'a Param, String)>,
    /// True if parameters have changed places.
    is_mixed: bool,
    /// A constraint that the action did not have, and its parameters.
    constraint: Option<(&'a Constraint, &'a [Param])>,
}

/// A constraint that is not the one from before.
fn new_constraint<'a>(old: &Option<Constraint>, new: &'a Option<Constraint>) -> Option<&'a Constraint> {
    let text = old.as_ref().map(Constraint::text);
    new.as_ref().filter(|new| Some(new.text()) != text)
}

/// The declaration of a table.
fn declared(control: &Control, table: TableId) -> &p4jet_ir::Table {
    &control.program().tables[table.index()]
}

/// What has a value that would be lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Entry,
    Default,
    Member,
    /// Of a value set.
    Value,
}

impl Holder {
    fn what(self) -> &'static str {
        match self {
            Holder::Entry => "an entry",
            Holder::Default => "the default action",
            Holder::Member => "a member",
            Holder::Value => "a value",
        }
    }

    /// Its action, which is not that of a value set.
    fn action(self, name: &str) -> String {
        match self {
            Holder::Default => format!("the default action `{name}`"),
            holder => format!("the action `{name}` of {}", holder.what()),
        }
    }

    /// How a client removes it.
    fn removal(self) -> &'static str {
        match self {
            Holder::Entry => "delete the entry",
            Holder::Default => "reset the default action",
            Holder::Member => "delete the member",
            Holder::Value => "remove the value",
        }
    }
}

/// The end of a message about a constraint that the old P4Info did not have.
fn new_constraint_hint(holder: Holder) -> String {
    format!("; this constraint is new: keep the old one, or {} first", holder.removal())
}

/// The loss of a string of a translated type.
fn string_lost(string: &str, instead: &str, holder: Holder) -> String {
    let removal = holder.removal();
    format!(
        "the string `{string}`, but the new P4Info has {instead} there: keep the translation of the type, or {removal} first"
    )
}

impl Pipeline {
    /// The part of the state of `control`, written with this P4Info, that is lost with the P4Info `new` for the program of `next`:
    /// one line for each, or nothing.
    pub(crate) fn lost_with(&self, new: &Pipeline, control: &Control, next: &Control) -> Option<String> {
        // So that both show the same strings.
        new.take_kept(control);
        let mut lost = Reasons::default();
        let new = New {
            pipeline: new,
            tables: by_name(&new.tables, |table| &table.name),
            actions: by_name(&new.actions, |action| &action.name),
        };
        let of_program: HashSet<&str> =
            next.program().tables.iter().map(|table| table.name.as_str()).collect();
        for table in self.tables.values() {
            self.lose_of_program(table, control, next, &mut lost);
            self.lose_of_default(table, &new, control, next, &mut lost);
            match new.tables.get(table.name.as_str()) {
                // Tables with other keys are reported with their entries, as are those that the program lacks.
                Some(found) if declared(control, table.table).keys == declared(next, found.table).keys => {
                    self.lose_of_table(table, found, &new, control, &mut lost);
                    lose_to_program(table, found, control, next, &mut lost);
                }
                Some(_) => {}
                None if of_program.contains(table.name.as_str()) => {
                    let entries = control.switch().table(table.table);
                    let is_own =
                        |(handle, entry): &(EntryHandle, Entry)| table.is_of_program(control, *handle, entry);
                    let own = entries.entries().filter(is_own).count();
                    if (own, own) != (entries.len(), table.of_program.len()) {
                        lost.push(|| {
                            format!(
                                "table `{}`: it has entries, but the new P4Info lacks it: add it to the P4Info, or delete the \
                                 entries first",
                                table.name
                            )
                        });
                    }
                }
                None => {}
            }
        }
        self.lose_of_profiles(&new, control, next, &mut lost);
        let value_sets = by_name(&new.pipeline.value_sets, |set| &set.name);
        for set in self.value_sets.values() {
            let Some(found) = value_sets.get(set.name.as_str()) else { continue };
            let keys = self.lost_keys(&set.keys, &found.keys, new.pipeline);
            if !keys.is_empty() {
                for (_, entry) in control.switch().table(set.table).entries() {
                    self.lose_of_key(&set.name, Holder::Value, &keys, &entry.key, &mut lost);
                }
            }
        }
        let meters = by_name(&new.pipeline.meters, |meter| &meter.name);
        for meter in self.meters.values() {
            let Some(found) = meters.get(meter.name.as_str()) else { continue };
            let types = (meter.meter_type, found.meter_type);
            lose_of_meter(&meter.name, types, meter.instance, 0..meter.size, control, &mut lost);
        }
        let registers = by_name(&new.pipeline.registers, |register| &register.name);
        for register in self.registers.values() {
            if let Some(found) = registers.get(register.name.as_str()) {
                self.lose_of_register(register, found, new.pipeline, control, next, &mut lost);
            }
        }
        let digests = by_name(&new.pipeline.digests, |name| name);
        for id in self.wanted().keys() {
            let name = &self.digests[id];
            if !digests.contains_key(name.as_str()) {
                lost.push(|| {
                    format!(
                        "digest `{name}`: it has a DigestEntry, but the new P4Info lacks it: keep the digest, or delete the \
                         DigestEntry first"
                    )
                });
            }
        }
        (!lost.is_empty()).then(|| lost.into_lines().join("\n"))
    }

    fn lose_of_table(
        &self,
        table: &Table,
        found: &Table,
        new: &New<'_>,
        control: &Control,
        lost: &mut Reasons,
    ) {
        let keys = self.lost_keys(&table.keys, &found.keys, new.pipeline);
        let actions = self.changed_actions(table, new);
        let constraint = new_constraint(&table.constraint, &found.constraint).is_some();
        let name = &table.name;
        if let Some(default) = control.default_action(table.table) {
            self.lose_of_action(name, Holder::Default, &default, &actions, lost);
        }
        let switch = control.switch();
        if !keys.is_empty() || !actions.is_empty() || constraint {
            for (handle, entry) in switch.table(table.table).entries() {
                // The new program brings its own.
                if table.is_const || table.is_of_program(control, handle, &entry) {
                    continue;
                }
                self.lose_of_key(name, Holder::Entry, &keys, &entry.key, lost);
                self.lose_of_action(name, Holder::Entry, &entry.action, &actions, lost);
                let priority = table.show_priority(handle, entry.priority);
                if constraint && let Err(refusal) = new.pipeline.check_constraint(found, &entry.key, priority)
                {
                    lost.push(|| refusal.message + &new_constraint_hint(Holder::Entry));
                }
            }
        }
        if let Some(meter) = table.meter.filter(|_| table.meter_type != found.meter_type) {
            let rows: Vec<u32> = {
                let entries = switch.table(table.table);
                entries.entries().map(|(handle, _)| entries.row_of(handle)).chain([DEFAULT_ROW]).collect()
            };
            let types = (table.meter_type, found.meter_type);
            lose_of_meter(&format!("the direct meter of {name}"), types, meter, rows, control, lost);
        }
    }

    /// Reports entries of the program with metadata that the new program lacks. Their other changes are reported with the table.
    fn lose_of_program(&self, table: &Table, control: &Control, next: &Control, lost: &mut Reasons) {
        if table.of_program.is_empty() {
            return;
        }
        let declared = declared(control, table.table);
        let Some(found) = next.program().tables.iter().find(|found| found.name == declared.name) else {
            return;
        };
        for (like, handle) in found.entries_like(declared).into_iter().zip(0..) {
            if like.is_none() && control.note(&Noted::Entry(table.table, handle)).is_some() {
                lost.push(|| {
                    let name = &table.name;
                    format!(
                        "`{name}`: entry {handle:#x} of the program has metadata, and the new program has none with this key"
                    )
                });
            }
        }
    }

    /// Reports the default action that a client has set if the new P4Info lacks the table, and metadata of the default entry if the
    /// program or the P4Info does. A program that lacks the table loses the action.
    fn lose_of_default(
        &self,
        table: &Table,
        new: &New<'_>,
        control: &Control,
        next: &Control,
        lost: &mut Reasons,
    ) {
        let name = &declared(control, table.table).name;
        let is_in_program = next.program().tables.iter().any(|found| found.name == *name);
        let what = match is_in_program && new.tables.contains_key(table.name.as_str()) {
            true => return,
            false if control.note(&Noted::Default(table.table)).is_some() => "metadata",
            false if is_in_program && control.switch().table(table.table).is_default_set() => {
                "another action"
            }
            false => return,
        };
        let lacking = if is_in_program { "P4Info" } else { "program" };
        lost.push(|| {
            format!(
                "table `{}`: its default entry has {what}, but the new {lacking} lacks the table: keep the table, or reset the \
                 default entry first",
                table.name
            )
        });
    }

    fn lose_of_profiles(&self, new: &New<'_>, control: &Control, next: &Control, lost: &mut Reasons) {
        let of_program = |name: &str| next.program().instances.iter().any(|found| found.name == name);
        for profile in self.profiles.values() {
            let store = control.schema().profile_table(profile.instance).and_then(|of| control.profile(of));
            let (Ok(table), Ok(store)) = (self.profile_table(profile), store) else { continue };
            let actions = self.changed_actions(table, new);
            if !actions.is_empty() {
                for (_, action) in store.members() {
                    self.lose_of_action(&profile.name, Holder::Member, &action, &actions, lost);
                }
            }
            match new.pipeline.profiles.values().find(|new| new.name == profile.name) {
                Some(found) => lose_of_groups(profile, found, control, next, lost),
                // A program that lacks it loses them.
                None if of_program(&profile.name) && store.objects_count() > 0 => lost.push(|| {
                    format!(
                        "action profile `{}`: it has members or groups, but the new P4Info lacks it: add it to the P4Info, or \
                         delete them first",
                        profile.name
                    )
                }),
                None => {}
            }
        }
    }

    /// What the new P4Info has for a field instead of the same strings; `None` if it has these or the field had none.
    fn instead_of_strings(&self, old: &Field, field: Option<&Field>, new: &Pipeline) -> Option<String> {
        let Outside::String(space) = old.outside else { return None };
        let Some(field) = field else { return Some("nothing".to_string()) };
        match field.outside {
            Outside::String(found) if new.uris()[found] == self.uris()[space] => None,
            Outside::String(found) => Some(format!("strings of `{}`", cut(&new.uris()[found], URI_BYTES))),
            Outside::Same | Outside::Bits(_) => Some(format!("numbers of {} bits", field.outer_width())),
        }
    }

    fn lost_keys<'a>(&self, old: &'a [Key], found: &[Key], new: &Pipeline) -> Vec<(&'a Key, String)> {
        let instead = |key: &'a Key| {
            let field = found.iter().find(|found| found.place == key.place).map(|found| &found.field);
            Some((key, self.instead_of_strings(&key.field, field, new)?))
        };
        old.iter().filter_map(instead).collect()
    }

    /// The actions of a table that the new P4Info changes, by their index.
    fn changed_actions<'a>(&'a self, table: &Table, new: &New<'a>) -> HashMap<u32, Changed<'a>> {
        let changed = |old: &'a Action| {
            let found: &'a Action = new.actions.get(old.name.as_str())?;
            let at = |param: &Param| found.params.iter().find(|found| found.place == param.place);
            let instead = |param: &'a Param| {
                let field = at(param).map(|found| &found.field);
                Some((param, self.instead_of_strings(&param.field, field, new.pipeline)?))
            };
            let changed = Changed {
                name: &old.name,
                strings: old.params.iter().filter_map(instead).collect(),
                is_mixed: old.params.iter().any(|param| {
                    found.params.iter().any(|p| p.field.name == param.field.name && p.place != param.place)
                }),
                constraint: new_constraint(&old.constraint, &found.constraint)
                    .map(|new| (new, &*found.params)),
            };
            let is_same = changed.strings.is_empty() && !changed.is_mixed && changed.constraint.is_none();
            (!is_same).then_some(changed)
        };
        let actions = table.actions.iter();
        actions.filter_map(|listed| Some((listed.index, changed(&self.actions[&listed.id])?))).collect()
    }

    /// The string of a number, unless it is the number in decimal digits.
    fn string_of(&self, field: &Field, value: &BigUint) -> Option<String> {
        let shown = self.strings.show(field, value);
        (*shown != *value.to_string().as_bytes()).then(|| String::from_utf8_lossy(&shown).into_owned())
    }

    fn lose_of_key(
        &self,
        of: &str,
        holder: Holder,
        keys: &[(&Key, String)],
        matches: &[KeyMatch],
        lost: &mut Reasons,
    ) {
        for (key, instead) in keys {
            let value = match &matches[key.place] {
                KeyMatch::Exact(value)
                | KeyMatch::Lpm { value, .. }
                | KeyMatch::Ternary { value, .. }
                | KeyMatch::Optional(Some(value))
                | KeyMatch::Range { lo: value, .. } => value,
                KeyMatch::Optional(None) => continue,
            };
            if let Some(string) = self.string_of(&key.field, value) {
                let (field, what) = (key.field.shown(), holder.what());
                lost.push(|| {
                    format!("`{of}`: {field} of {what} is {}", string_lost(&string, instead, holder))
                });
            }
        }
    }

    fn lose_of_action(
        &self,
        of: &str,
        holder: Holder,
        action: &p4jet_tables::Action,
        actions: &HashMap<u32, Changed<'_>>,
        lost: &mut Reasons,
    ) {
        if action.as_member().or(action.as_group()).is_some() {
            return;
        }
        let Some(changed) = actions.get(&action.action) else { return };
        let name = changed.name;
        if changed.is_mixed {
            lost.push(|| {
                format!(
                    "`{of}`: the parameters of {} have another order in the new program: keep the order, or {} first",
                    holder.action(name),
                    holder.removal()
                )
            });
        }
        for (param, instead) in &changed.strings {
            let string = action.data.get(param.place).and_then(|value| self.string_of(&param.field, value));
            if let Some(string) = string {
                let field = param.field.shown();
                lost.push(|| {
                    let lost = string_lost(&string, instead, holder);
                    format!("`{of}`: {field} of {} is {lost}", holder.action(name))
                });
            }
        }
        if let Some((constraint, params)) = changed.constraint.filter(|_| holder != Holder::Default) {
            let value = |param: &Param| action.data.get(param.place).cloned();
            let values: Option<Vec<BigUint>> = params.iter().map(value).collect();
            // With other parameters, the program does not keep the entry.
            let Some(values) = values else { return };
            let values: Vec<_> = values.into_iter().map(p4jet_p4info::constraints::Value::Number).collect();
            if let Err(violation) = constraint.check(&values, 0) {
                let hint = new_constraint_hint(holder);
                lost.push(|| format!("`{of}`: action `{name}`: {violation}{hint}"));
            }
        }
    }

    fn lose_of_register(
        &self,
        old: &Register,
        found: &Register,
        new: &Pipeline,
        control: &Control,
        next: &Control,
        lost: &mut Reasons,
    ) {
        let plain = |register: &Register| match &register.spec.type_spec {
            Some(DataType::Bitstring(string)) => string.type_spec.clone(),
            _ => None,
        };
        let is_same = old.spec == found.spec
            && self.p4info().type_info == new.p4info().type_info
            && control.program().errors == next.program().errors;
        if is_same || (plain(old).is_some() && plain(old) == plain(found)) {
            return;
        }
        let show = |pipeline: &Pipeline, control: &Control, register: &Register, value: &BigUint| {
            let show = |types: &crate::data::Types<'_>| crate::data::show(&register.spec, types, value).ok();
            pipeline.with_types(control, true, show)
        };
        // Registers of other sizes are reported as a whole.
        for cell in 0..old.size.min(found.size) {
            let value = control.register_value(old.instance, cell).unwrap_or_default();
            let (before, after) = (show(self, control, old, &value), show(new, next, found, &value));
            if !agree(before.as_ref(), after.as_ref()) {
                let name = &old.name;
                lost.push(|| {
                    format!(
                        "register `{name}`: cell {cell} would have another value with the type in the new P4Info: keep the type, \
                         or write a value that both types have first"
                    )
                });
            }
        }
    }
}

/// True if two forms of the same bits are the same to clients. A string of decimal digits and the number are.
fn agree(old: Option<&P4Data>, new: Option<&P4Data>) -> bool {
    match (old.and_then(|old| old.data.as_ref()), new.and_then(|new| new.data.as_ref())) {
        (Some(DataValue::Bitstring(old)), Some(DataValue::Bitstring(new))) => {
            old == new || {
                let digits =
                    |of: &[u8], number: &[u8]| BigUint::from_bytes_be(number).to_string().as_bytes() == of;
                digits(old, new) || digits(new, old)
            }
        }
        (Some(DataValue::Struct(old)), Some(DataValue::Struct(new)))
        | (Some(DataValue::Tuple(old)), Some(DataValue::Tuple(new))) => {
            let mut members = old.members.iter().zip(&new.members);
            old.members.len() == new.members.len() && members.all(|(old, new)| agree(Some(old), Some(new)))
        }
        (old, new) => old == new,
    }
}

/// Reports entries of clients with the key and priority of an entry that the new program declares: packets would meet the latter.
/// In tables without priorities, the program does not keep them.
fn lose_to_program(table: &Table, found: &Table, control: &Control, next: &Control, lost: &mut Reasons) {
    if !found.has_priority || found.of_program.is_empty() {
        return;
    }
    let (old, new) = (declared(control, table.table), declared(next, found.table));
    let entries = control.switch().table(table.table);
    let is_there = |handle: u32, entry: &p4jet_ir::Entry| {
        entries.find(&entry.key, entry.priority) == Some(EntryHandle(handle))
    };
    // Entries of the new program that are deleted because a client has deleted those of the old one.
    let pairs = old.entries.iter().zip(0..).zip(new.entries_like(old));
    let deleted: HashSet<u32> =
        pairs.filter(|((entry, handle), _)| !is_there(*handle, entry)).filter_map(|(_, like)| like).collect();
    for (handle, entry) in entries.entries() {
        if old.entries.get(handle.0 as usize).is_some_and(|declared| is_there(handle.0, declared)) {
            continue;
        }
        let priority = table.show_priority(handle, entry.priority);
        if found.declared_as(&entry.key, priority).any(|like| !deleted.contains(&like.0)) {
            lost.push(|| {
                format!(
                    "`{}`: a client has inserted an entry with the priority {priority} and the key of an entry of the new \
                     program: an entry with this key already exists; delete that of the client first",
                    table.name
                )
            });
        }
    }
}

/// Reports groups and one-shots that are over the limits of their new selector. Those of runtime commands have no limits.
fn lose_of_groups(old: &Profile, new: &Profile, control: &Control, next: &Control, lost: &mut Reasons) {
    let size = |control: &Control, of: &Profile| {
        control.schema().profile_size(of.instance).map_or(u64::MAX, u64::from)
    };
    let (old_max, max) = (size(control, old), size(next, new));
    let limits = |of: &Profile| (of.max_group_size, of.members_counted, of.weights_disallowed);
    if limits(old) == limits(new) && old_max <= max {
        return;
    }
    let all = Noted::Group(old.instance, 0)..=Noted::Group(old.instance, u32::MAX);
    let groups = control.noted(all).into_iter().filter_map(|of| note::<ActionProfileGroup>(control, &of));
    let groups: Vec<ActionProfileGroup> = groups.collect();
    for group in &groups {
        if let Err(refusal) = check_noted(new, group) {
            lost.push(|| match group.group_id {
                0 => format!("a one-shot of {}", refusal.message),
                id => format!("group {id} of {}", refusal.message),
            });
        }
    }
    let total = total_size(new, &groups);
    if total > max && (max < old_max || total_size(old, &groups) <= max) {
        lost.push(|| {
            format!("`{}`: all groups together have the size {total} now, more than {max}", new.name)
        });
    }
}

/// Reports the configurations of a meter that its new type does not have.
fn lose_of_meter(
    name: &str,
    (old, new): (MeterType, MeterType),
    meter: InstanceId,
    cells: impl IntoIterator<Item = u32>,
    control: &Control,
    lost: &mut Reasons,
) {
    let fits = |of: &Rates| {
        let config = show_rates(old, of);
        rates(new, &config).is_ok() && show_rates(new, of) == config
    };
    let state = control.switch().state();
    for cell in if old == new { None } else { Some(cells) }.into_iter().flatten() {
        if let Ok(Some(of)) = state.meter_rates(meter.0, cell)
            && !fits(&of)
        {
            let config = show_rates(old, &of);
            lost.push(|| {
                format!(
                    "meter `{name}`: it is a {new:?} meter in the new P4Info, which cannot have the {config:?}: keep the type, \
                     or write other rates first"
                )
            });
        }
    }
}
