//! Formats updates as runtime commands: the inverse of the parser.

use num_bigint::BigUint;
use p4jet_control::{Act, EntryRef, KeyMatch, ObjectKind, Ref, Schema, Update};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::Action;
use std::fmt::Display;

/// Formats a value of a key field or parameter, given its name and its width in bits.
pub type Notation = fn(&str, u32, &BigUint) -> String;

/// The runtime command for an update, if there is one, with the shortest names. `$7` denotes the object that the seventh update of
/// the batch creates, like the seventh line in a file of commands.
pub fn runtime_command(schema: &Schema, update: &Update, notation: Notation) -> Option<String> {
    Format { schema, notation }.command(update)
}

struct Format<'s> {
    schema: &'s Schema,
    notation: Notation,
}

impl Format<'_> {
    fn command(&self, update: &Update) -> Option<String> {
        Some(match update {
            Update::Insert { table, key, priority, act } => {
                let name = self.table(*table);
                let key = self.key(*table, key);
                let priority = match self.schema.shape(*table).needs_priority {
                    true => format!(" {priority}"),
                    false => String::new(),
                };
                match act {
                    Act::Action(action) => {
                        let (action, data) = self.action(*table, action);
                        format!("table_add {name} {action}{key} =>{data}{priority}")
                    }
                    Act::Member(member) => {
                        format!("table_indirect_add {name}{key} => {}{priority}", handle(*member))
                    }
                    Act::Group(group) => {
                        format!("table_indirect_add_with_group {name}{key} => {}{priority}", handle(*group))
                    }
                }
            }
            Update::Modify { table, entry, act: Act::Action(action) } => {
                let (action, data) = self.action(*table, action);
                format!("table_modify {} {action} {} =>{data}", self.table(*table), of_entry(entry)?)
            }
            Update::Delete { table, entry } => {
                format!("{}_delete {} {}", self.prefix(*table), self.table(*table), of_entry(entry)?)
            }
            Update::ResetDefault(table) => {
                format!("{}_reset_default {}", self.prefix(*table), self.table(*table))
            }
            Update::CreateMember { profile, action } => {
                let (action, data) = self.action(self.schema.profile_table(*profile).ok()?, action);
                format!("act_prof_create_member {} {action}{data}", self.profile(*profile))
            }
            Update::ModifyMember { profile, member, action } => {
                let (action, data) = self.action(self.schema.profile_table(*profile).ok()?, action);
                let (profile, member) = (self.profile(*profile), handle(*member));
                format!("act_prof_modify_member {profile} {action} {member} =>{data}")
            }
            Update::DeleteMember { profile, member } => {
                format!("act_prof_delete_member {} {}", self.profile(*profile), handle(*member))
            }
            Update::CreateGroup { profile } => format!("act_prof_create_group {}", self.profile(*profile)),
            Update::DeleteGroup { profile, group } => {
                format!("act_prof_delete_group {} {}", self.profile(*profile), handle(*group))
            }
            Update::AddToGroup { profile, group, member } => {
                let (profile, member, group) = (self.profile(*profile), handle(*member), handle(*group));
                format!("act_prof_add_member_to_group {profile} {member} {group}")
            }
            Update::RemoveFromGroup { profile, group, member } => {
                let (profile, member, group) = (self.profile(*profile), handle(*member), handle(*group));
                format!("act_prof_remove_member_from_group {profile} {member} {group}")
            }
            Update::SetCrc { crc, params } => format!(
                "set_crc{}_parameters {} {:#x} {:#x} {:#x} {} {}",
                params.width,
                self.schema.names(ObjectKind::Crc).shortest(*crc),
                params.poly,
                params.init,
                params.xor,
                params.reflect_in,
                params.reflect_out
            ),
            Update::AddToValueSet { set, key } => {
                format!("pvs_add {}{}", self.value_set(*set), self.key(*set, key))
            }
            Update::RemoveFromValueSet { set, key } => {
                format!("pvs_remove {}{}", self.value_set(*set), self.key(*set, key))
            }
            Update::CreateMulticastGroup(group) => format!("mc_mgrp_create {group}"),
            Update::DestroyMulticastGroup(group) => format!("mc_mgrp_destroy {group}"),
            Update::CreateNode { replication_id, ports, lags } if lags.is_empty() => {
                format!("mc_node_create {replication_id}{}", words(ports))
            }
            Update::Associate { group, node } => format!("mc_node_associate {group} {}", handle(*node)),
            Update::Dissociate { group, node } => format!("mc_node_dissociate {group} {}", handle(*node)),
            Update::DestroyNode(node) => format!("mc_node_destroy {}", handle(*node)),
            _ => return None,
        })
    }

    /// The first part of commands that bmv2 names differently for tables with action profiles.
    fn prefix(&self, table: TableId) -> &'static str {
        match self.schema.table_info(table).is_some_and(|info| info.profile.is_some()) {
            true => "table_indirect",
            false => "table",
        }
    }

    fn table(&self, table: TableId) -> &str {
        self.schema.names(ObjectKind::Table).shortest(table.0)
    }

    fn value_set(&self, set: TableId) -> &str {
        self.schema.names(ObjectKind::ValueSet).shortest(set.0)
    }

    fn profile(&self, profile: InstanceId) -> &str {
        self.schema.names(ObjectKind::Profile).shortest(profile.0)
    }

    fn key(&self, table: TableId, key: &[KeyMatch]) -> String {
        let word = |(field, found): (&p4jet_control::KeyField, &KeyMatch)| {
            let value = |value: &BigUint| (self.notation)(&field.name, field.width, value);
            match found {
                KeyMatch::Exact(exact) | KeyMatch::Optional(Some(exact)) => format!(" {}", value(exact)),
                KeyMatch::Lpm { value: prefix, prefix_len } => format!(" {}/{prefix_len}", value(prefix)),
                KeyMatch::Ternary { value: masked, mask } => format!(" {}&&&{mask:#x}", value(masked)),
                KeyMatch::Range { lo, hi } => format!(" {}->{}", value(lo), value(hi)),
                KeyMatch::Optional(None) => " 0&&&0".to_string(),
            }
        };
        self.schema.key(table).iter().zip(key).map(word).collect()
    }

    /// The name of an action, and its data, each value after a blank.
    fn action(&self, table: TableId, action: &Action) -> (&str, String) {
        let actions = self.schema.names(ObjectKind::ActionOf(table));
        let params = self.schema.actions_of(table).get(action.action as usize);
        let params = params.into_iter().flat_map(|info| &info.params).zip(&action.data);
        let data =
            params.map(|(param, value)| format!(" {}", (self.notation)(&param.name, param.width, value)));
        (actions.shortest(action.action), data.collect())
    }
}

fn words<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| format!(" {value}")).collect()
}

fn of_entry(entry: &EntryRef) -> Option<String> {
    match entry {
        EntryRef::Handle(of) => Some(handle(*of)),
        EntryRef::Key(_) => None,
    }
}

fn handle(of: Ref) -> String {
    match of {
        Ref::Handle(handle) => handle.to_string(),
        Ref::Made(place) => format!("${}", u64::from(place) + 1),
    }
}
