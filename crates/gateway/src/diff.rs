//! The commands that make a switch what it is to be.

use crate::plan::Plan;
use crate::schema::{Call, Key, Kind, Table, Word, key_text, params_text};
use crate::state::{Actual, CRC_CUSTOM, OwnVtep};
use std::collections::BTreeSet;
use std::fmt::Write;

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Something is new.
    Add,
    /// Something does something else.
    Change,
    /// Something goes.
    Remove,
}

impl Act {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Act::Add => "add",
            Act::Change => "change",
            Act::Remove => "remove",
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it does.
    pub act: Act,
    /// The runtime command.
    pub command: String,
    /// For people: what the command's handles are, and what was before.
    pub about: String,
    /// The slot of a pool that does something else: its pool, number, and what it does.
    pub slot: Option<(u16, usize, Call)>,
}

/// Changes in an order in which every packet, at any time, goes the old way or the new way: first what is
/// named by others is added, then what names it; what entries with equal keys do is changed in place; last
/// what nothing names any more is removed.
pub fn diff(plan: &Plan, actual: &Actual) -> Vec<Change> {
    let mut diff = Diff { plan, actual, changes: Vec::new() };
    diff.defaults();
    diff.crc();
    for table in Table::ALL {
        diff.put_entries(table);
        if table == Table::Replicas {
            diff.put_floods();
            diff.put_pools();
        }
    }
    diff.own_vteps();
    for table in Table::ALL.into_iter().rev() {
        if table == Table::Replicas {
            diff.take_pools();
            diff.take_floods();
        }
        diff.take_entries(table);
    }
    diff.changes
}

/// Those changes that follow from [`Plan::share`].
pub(crate) fn diff_shares(plan: &Plan, actual: &Actual) -> Vec<Change> {
    let mut diff = Diff { plan, actual, changes: Vec::new() };
    diff.put_pools();
    diff.changes
}

/// How many changes do what, in words.
pub fn summary(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "nothing to change".to_string();
    }
    let count = |act| changes.iter().filter(|change| change.act == act).count();
    format!("{} to add, {} to change, {} to remove", count(Act::Add), count(Act::Change), count(Act::Remove))
}

/// The changes as a file of commands, with a comment behind each that needs one.
pub fn commands(changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let comment = if change.about.is_empty() { "" } else { "    # " };
        writeln!(text, "{}{comment}{}", change.command, change.about).expect("a String takes everything");
    }
    text
}

/// The handle that the switch gives next, as it counts them: the smallest that is free.
fn next_free(used: &mut BTreeSet<u32>) -> u32 {
    let free = (0..).zip(used.iter()).find(|(n, used)| n != *used).map(|(n, _)| n);
    let free = free.unwrap_or(used.len() as u32);
    used.insert(free);
    free
}

struct Diff<'a> {
    plan: &'a Plan,
    actual: &'a Actual,
    changes: Vec<Change>,
}

impl Diff<'_> {
    fn push(&mut self, act: Act, command: String, about: String) {
        self.changes.push(Change { act, command, about, slot: None });
    }

    /// A next hop by its name, if it is a back end.
    fn name_of(&self, call: &Call) -> String {
        match (call.action.as_str(), call.params.as_slice()) {
            ("to_next_hop", [next_hop]) => match self.plan.names.get(next_hop) {
                Some(name) => name.clone(),
                None => format!("next hop {next_hop}"),
            },
            _ => "nobody".to_string(),
        }
    }

    fn defaults(&mut self) {
        for table in &self.actual.strays.defaults {
            let reset = if table == "pools" { "table_indirect_reset_default" } else { "table_reset_default" };
            self.push(Act::Change, format!("{reset} {table}"), String::new());
        }
    }

    fn crc(&mut self) {
        if self.plan.state.crc32c && !self.actual.state.crc32c {
            for calc in CRC_CUSTOM {
                let params = "0x1edc6f41 0xffffffff 0xffffffff true true";
                self.push(
                    Act::Change,
                    format!("set_crc32_parameters {calc} {params}"),
                    "CRC-32C".to_string(),
                );
            }
        }
    }

    fn put_entries(&mut self, table: Table) {
        let name = table.name();
        for ((_, key), call) in of(&self.plan.state.entries, table) {
            let (words, params) = (key_text(table, key), params_text(table, call));
            let action = &call.action;
            let place = (table, key.clone());
            match self.actual.state.entries.get(&place) {
                Some(before) if before == call => {}
                Some(before) => {
                    let handle = self.actual.handles[&place];
                    let command = format!("table_modify {name} {action} {handle} =>{params}");
                    let before = format!("{} =>{}", before.action, params_text(table, before));
                    self.push(Act::Change, command, format!("{words}, before {before}"));
                }
                None => {
                    self.push(
                        Act::Add,
                        format!("table_add {name} {action} {words} =>{params}"),
                        String::new(),
                    );
                }
            }
        }
    }

    fn take_entries(&mut self, table: Table) {
        for (place, call) in of(&self.actual.state.entries, table) {
            if !self.plan.state.entries.contains_key(place) {
                let handle = self.actual.handles[place];
                let words = key_text(table, &place.1);
                let params = params_text(table, call);
                let about = format!("{} {words} =>{params}", call.action);
                self.push(Act::Remove, format!("table_delete {} {handle}", table.name()), about);
            }
        }
    }

    fn put_floods(&mut self) {
        let mut used = self.actual.used.nodes.clone();
        for (group, copies) in &self.plan.state.floods {
            if !self.actual.state.floods.contains_key(group) {
                self.push(Act::Add, format!("mc_mgrp_create {group}"), String::new());
            }
            for (rid, port) in copies {
                if !self.actual.nodes.contains_key(&(*group, *rid, *port)) {
                    let node = next_free(&mut used);
                    self.push(Act::Add, format!("mc_node_create {rid} {port}"), format!("node {node}"));
                    self.push(Act::Add, format!("mc_node_associate {group} {node}"), String::new());
                }
            }
        }
    }

    fn take_floods(&mut self) {
        let gone = self.actual.nodes.iter().filter(|((group, rid, port), _)| {
            let copies = self.plan.state.floods.get(group);
            !copies.is_some_and(|copies| copies.contains(&(*rid, *port)))
        });
        let gone = gone.map(|((group, ..), node)| (*node, Some(*group)));
        let strays = self.actual.strays.nodes.iter().map(|(node, group)| (*node, *group));
        let gone: Vec<_> = gone.chain(strays).collect();
        for (node, group) in gone {
            if let Some(group) = group {
                self.push(Act::Remove, format!("mc_node_dissociate {group} {node}"), String::new());
            }
            self.push(Act::Remove, format!("mc_node_destroy {node}"), String::new());
        }
        for group in self.actual.state.floods.keys() {
            if !self.plan.state.floods.contains_key(group) {
                self.push(Act::Remove, format!("mc_mgrp_destroy {group}"), String::new());
            }
        }
    }

    fn put_pools(&mut self) {
        let (mut members, mut groups) = (self.actual.used.members.clone(), self.actual.used.groups.clone());
        for (pool, slots) in &self.plan.state.pools {
            let pool_name = self.plan.pool(*pool);
            match (self.actual.state.pools.get(pool), self.actual.pools.get(pool)) {
                // A pool of another size has another number.
                (Some(before), Some(handles)) => {
                    for (slot, (before, after)) in before.iter().zip(slots).enumerate() {
                        if before != after {
                            let member = handles.members[slot];
                            let params: String = after.params.iter().map(|p| format!(" {p}")).collect();
                            let command = format!(
                                "act_prof_modify_member members {} {member} =>{params}",
                                after.action
                            );
                            let (from, to) = (self.name_of(before), self.name_of(after));
                            let about = format!("pool {pool_name}, slot {slot}: {from} to {to}");
                            let slot = Some((*pool, slot, after.clone()));
                            self.changes.push(Change { act: Act::Change, command, about, slot });
                        }
                    }
                }
                _ => {
                    let group = next_free(&mut groups);
                    let about = format!("group {group}: pool {pool_name}");
                    self.push(Act::Add, "act_prof_create_group members".to_string(), about);
                    // The selector counts a group's members by handle.
                    let mut handles = BTreeSet::new();
                    let mut after = 0;
                    while handles.len() < slots.len() {
                        let mut member = after;
                        while members.contains(&member) {
                            member += 1;
                        }
                        members.insert(member);
                        handles.insert(member);
                        after = member + 1;
                    }
                    for ((slot, call), member) in slots.iter().enumerate().zip(&handles) {
                        let params: String = call.params.iter().map(|p| format!(" {p}")).collect();
                        let command = format!("act_prof_create_member members {}{params}", call.action);
                        let name = self.name_of(call);
                        let about = format!("member {member}: pool {pool_name}, slot {slot}, {name}");
                        self.push(Act::Add, command, about);
                    }
                    for member in handles {
                        let command = format!("act_prof_add_member_to_group members {member} {group}");
                        self.push(Act::Add, command, String::new());
                    }
                    let command = format!("table_indirect_add_with_group pools {pool} => {group}");
                    self.push(Act::Add, command, String::new());
                }
            }
        }
    }

    fn take_pools(&mut self) {
        let actual = self.actual;
        let take_group = |diff: &mut Self, group: u32, members: &[u32], all: bool| {
            // The last one first, which leaves the others where they are.
            for member in members.iter().rev() {
                let command = format!("act_prof_remove_member_from_group members {member} {group}");
                diff.push(Act::Remove, command, String::new());
            }
            diff.push(Act::Remove, format!("act_prof_delete_group members {group}"), String::new());
            for member in members.iter().filter(|_| all) {
                diff.push(Act::Remove, format!("act_prof_delete_member members {member}"), String::new());
            }
        };
        for (pool, handles) in &actual.pools {
            if !self.plan.state.pools.contains_key(pool) {
                let command = format!("table_indirect_delete pools {}", handles.entry);
                self.push(Act::Remove, command, format!("pool {pool}"));
                take_group(self, handles.group, &handles.members, true);
            }
        }
        for (pool, entry) in &actual.strays.pools {
            self.push(Act::Remove, format!("table_indirect_delete pools {entry}"), format!("pool {pool}"));
        }
        for (group, members) in &actual.strays.groups {
            take_group(self, *group, members, false);
        }
        for member in &actual.strays.members {
            self.push(Act::Remove, format!("act_prof_delete_member members {member}"), String::new());
        }
    }

    fn own_vteps(&mut self) {
        let (wanted, there) = (&self.plan.state.own_vteps, &self.actual.state.own_vteps);
        let words = |own: &OwnVtep| match *own {
            OwnVtep::V4(v4) => format!("own_vteps_v4 {}", Word(Kind::V4, v4.into())),
            OwnVtep::V6(v6) => format!("own_vteps_v6 {}", Word(Kind::V6, v6)),
        };
        let added: Vec<String> = wanted.difference(there).map(words).collect();
        let gone: Vec<String> = there.difference(wanted).map(words).collect();
        for words in added {
            self.push(Act::Add, format!("pvs_add {words}"), String::new());
        }
        for words in gone {
            self.push(Act::Remove, format!("pvs_remove {words}"), String::new());
        }
    }
}

/// The entries of one table.
fn of(
    entries: &std::collections::BTreeMap<(Table, Key), Call>,
    table: Table,
) -> impl Iterator<Item = (&(Table, Key), &Call)> {
    entries.range((table, Vec::new())..).take_while(move |((t, _), _)| *t == table)
}
