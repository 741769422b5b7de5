//! The updates that bring a switch to its intended state.

use crate::plan::Plan;
use crate::schema::{CRC32C, Call, Key, Objects, Table};
use crate::state::{Actual, OwnVtep};
use p4jet_control::{CrcParams, KeyMatch, Ref, TableId, Update};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Adds something.
    Add,
    /// Changes the action of something.
    Change,
    /// Removes something.
    Remove,
}

impl ChangeKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            ChangeKind::Add => "add",
            ChangeKind::Change => "change",
            ChangeKind::Remove => "remove",
        }
    }
}

/// A change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its kind.
    pub kind: ChangeKind,
    /// The update. An object that it refers to as new is created by the change at that position.
    pub update: Update,
    /// For users: the object, and its previous state.
    pub about: String,
    /// The slot of a pool that changes: pool, number, and the new action.
    pub slot: Option<(u16, usize, Call)>,
}

/// Returns the changes in an order in which every packet, at any time, follows either the old or the new state: first objects
/// that others refer to are added, then those that refer to them; entries with equal keys are changed in place; finally,
/// objects that nothing refers to are removed.
pub fn diff(objects: &Objects, plan: &Plan, actual: &Actual) -> Vec<Change> {
    let mut diff = Diff { objects, plan, actual, changes: Vec::new() };
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

/// Returns only the changes that follow from [`Plan::share`].
pub(crate) fn diff_shares(objects: &Objects, plan: &Plan, actual: &Actual) -> Vec<Change> {
    let mut diff = Diff { objects, plan, actual, changes: Vec::new() };
    diff.put_pools();
    diff.changes
}

/// Returns the number of changes of each kind as text.
pub fn summary(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "nothing to change".to_string();
    }
    let count = |kind| changes.iter().filter(|change| change.kind == kind).count();
    format!(
        "{} to add, {} to change, {} to remove",
        count(ChangeKind::Add),
        count(ChangeKind::Change),
        count(ChangeKind::Remove)
    )
}

impl Change {
    /// Returns the runtime command.
    pub fn command(&self, objects: &Objects) -> String {
        objects.command(&self.update)
    }
}

/// Returns the changes as a file of commands, with comments where needed.
pub fn commands(objects: &Objects, changes: &[Change]) -> String {
    let mut text = String::new();
    for change in changes {
        let comment = if change.about.is_empty() { "" } else { "    # " };
        writeln!(text, "{}{comment}{}", change.command(objects), change.about)
            .expect("a String takes everything");
    }
    text
}

struct Diff<'a> {
    objects: &'a Objects,
    plan: &'a Plan,
    actual: &'a Actual,
    changes: Vec<Change>,
}

impl Diff<'_> {
    /// Adds a change; returns a reference to the object that it creates.
    fn push(&mut self, kind: ChangeKind, update: Update, about: String) -> Ref {
        let place = self.changes.len() as u32;
        self.changes.push(Change { kind, update, about, slot: None });
        Ref::Made(place)
    }

    /// Returns the name of a next hop that is a back end.
    fn name_of(&self, call: &Call) -> String {
        match (call.action.as_str(), call.params.as_slice()) {
            ("to_next_hop", [next_hop]) => match self.plan.names.get(next_hop) {
                Some(name) => name.clone(),
                None => format!("next hop {next_hop}"),
            },
            _ => "no next hop".to_string(),
        }
    }

    fn defaults(&mut self) {
        for table in &self.actual.strays.defaults {
            self.push(ChangeKind::Change, Update::ResetDefault(*table), String::new());
        }
    }

    fn crc(&mut self) {
        if self.plan.state.crc32c && !self.actual.state.crc32c {
            let [poly, init, xor] = CRC32C;
            let params = CrcParams { width: 32, poly, init, xor, reflect_in: true, reflect_out: true };
            for crc in self.objects.crcs {
                self.push(ChangeKind::Change, Update::SetCrc { crc, params }, "CRC-32C".to_string());
            }
        }
    }

    fn put_entries(&mut self, table: Table) {
        for (place, call) in of(&self.plan.state.entries, table) {
            match self.actual.state.entries.get(place) {
                Some(before) if before == call => {}
                Some(before) => {
                    let before = format!("{} =>{}", before.action, self.objects.params_text(table, before));
                    let about = format!("{}, before {before}", self.objects.key_text(table, &place.1));
                    let update = modify(self.objects, place, self.actual.handles[place], call);
                    self.push(ChangeKind::Change, update, about);
                }
                None => drop(self.push(ChangeKind::Add, insert(self.objects, place, call), String::new())),
            }
        }
    }

    fn take_entries(&mut self, table: Table) {
        for (place, call) in of(&self.actual.state.entries, table) {
            if !self.plan.state.entries.contains_key(place) {
                let (words, params) =
                    (self.objects.key_text(table, &place.1), self.objects.params_text(table, call));
                let about = format!("{} {words} =>{params}", call.action);
                self.push(
                    ChangeKind::Remove,
                    delete(self.objects.id(table), self.actual.handles[place]),
                    about,
                );
            }
        }
    }

    fn put_floods(&mut self) {
        for (group, copies) in &self.plan.state.floods {
            let group = u32::from(*group);
            if !self.actual.state.floods.contains_key(&(group as u16)) {
                self.push(ChangeKind::Add, Update::CreateMulticastGroup(group), String::new());
            }
            for (rid, port) in copies {
                if !self.actual.nodes.contains_key(&(group as u16, *rid, *port)) {
                    let (replication_id, ports) = (u32::from(*rid), [u32::from(*port)].into());
                    let create = Update::CreateNode { replication_id, ports, lags: BTreeSet::new() };
                    let node = self.push(ChangeKind::Add, create, String::new());
                    self.push(ChangeKind::Add, Update::Associate { group, node }, String::new());
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
            let node = Ref::Handle(node);
            if let Some(group) = group.map(u32::from) {
                self.push(ChangeKind::Remove, Update::Dissociate { group, node }, String::new());
            }
            self.push(ChangeKind::Remove, Update::DestroyNode(node), String::new());
        }
        for group in self.actual.state.floods.keys() {
            if !self.plan.state.floods.contains_key(group) {
                let group = u32::from(*group);
                self.push(ChangeKind::Remove, Update::DestroyMulticastGroup(group), String::new());
            }
        }
    }

    fn put_pools(&mut self) {
        let (profile, pools) = (self.objects.members, self.objects.pools);
        for (pool, slots) in &self.plan.state.pools {
            let pool_name = self.plan.pool(*pool);
            // A pool of another size has another number.
            if let (Some(before), Some(handles)) =
                (self.actual.state.pools.get(pool), self.actual.pools.get(pool))
            {
                for (slot, (before, after)) in before.iter().zip(slots).enumerate() {
                    if before != after {
                        let (from, to) = (self.name_of(before), self.name_of(after));
                        let about = format!("pool {pool_name}, slot {slot}: {from} to {to}");
                        let member = handles.members[slot].into();
                        let action = self.objects.action(pools, after);
                        let update = Update::ModifyMember { profile, member, action };
                        let slot = Some((*pool, slot, after.clone()));
                        self.changes.push(Change { kind: ChangeKind::Change, update, about, slot });
                    }
                }
                continue;
            }
            let create = Update::CreateGroup { profile };
            let group = self.push(ChangeKind::Add, create, format!("pool {pool_name}"));
            // The selector counts a group's members by handle. The switch assigns increasing handles to members that are
            // created in sequence while none is deleted.
            let mut members = Vec::with_capacity(slots.len());
            for (slot, call) in slots.iter().enumerate() {
                let about = format!("pool {pool_name}, slot {slot}, {}", self.name_of(call));
                let action = self.objects.action(pools, call);
                let create = Update::CreateMember { profile, action };
                members.push(self.push(ChangeKind::Add, create, about));
            }
            for member in members {
                let add = Update::AddToGroup { profile, group, member };
                self.push(ChangeKind::Add, add, String::new());
            }
            let insert = Update::Insert {
                table: pools,
                key: vec![KeyMatch::Exact((*pool).into())],
                priority: 0,
                act: p4jet_control::Act::Group(group),
            };
            self.push(ChangeKind::Add, insert, String::new());
        }
    }

    fn take_pools(&mut self) {
        let actual = self.actual;
        let (profile, pools) = (self.objects.members, self.objects.pools);
        let take_member = |diff: &mut Self, member: u32| {
            let delete = Update::DeleteMember { profile, member: member.into() };
            diff.push(ChangeKind::Remove, delete, String::new());
        };
        let take_group = |diff: &mut Self, group: u32, members: &[u32], all: bool| {
            let group = Ref::Handle(group);
            // The last one first, so that the others keep their positions.
            for member in members.iter().rev() {
                let member = Ref::Handle(*member);
                let remove = Update::RemoveFromGroup { profile, group, member };
                diff.push(ChangeKind::Remove, remove, String::new());
            }
            diff.push(ChangeKind::Remove, Update::DeleteGroup { profile, group }, String::new());
            members.iter().filter(|_| all).for_each(|member| take_member(diff, *member));
        };
        for (pool, handles) in &actual.pools {
            if !self.plan.state.pools.contains_key(pool) {
                self.push(ChangeKind::Remove, delete(pools, handles.entry), format!("pool {pool}"));
                take_group(self, handles.group, &handles.members, true);
            }
        }
        for (pool, entry) in &actual.strays.pools {
            self.push(ChangeKind::Remove, delete(pools, *entry), format!("pool {pool}"));
        }
        for (group, members) in &actual.strays.groups {
            take_group(self, *group, members, false);
        }
        actual.strays.members.iter().for_each(|member| take_member(self, *member));
    }

    fn own_vteps(&mut self) {
        let (wanted, there) = (&self.plan.state.own_vteps, &self.actual.state.own_vteps);
        let objects = self.objects;
        let value = |own: &OwnVtep| match *own {
            OwnVtep::V4(v4) => (objects.own_vteps_v4, vec![KeyMatch::Exact(v4.into())]),
            OwnVtep::V6(v6) => (objects.own_vteps_v6, vec![KeyMatch::Exact(v6.into())]),
        };
        let added: Vec<_> = wanted.difference(there).map(value).collect();
        let gone: Vec<_> = there.difference(wanted).map(value).collect();
        for (set, key) in added {
            self.push(ChangeKind::Add, Update::AddToValueSet { set, key }, String::new());
        }
        for (set, key) in gone {
            self.push(ChangeKind::Remove, Update::RemoveFromValueSet { set, key }, String::new());
        }
    }
}

/// Adds an entry.
pub(crate) fn insert(objects: &Objects, (table, key): &(Table, Key), call: &Call) -> Update {
    let (table, key) = (objects.id(*table), key.iter().map(KeyMatch::from).collect());
    Update::Insert { table, key, priority: 0, act: act(objects, table, call) }
}

/// Changes the action of an entry.
pub(crate) fn modify(objects: &Objects, (table, _): &(Table, Key), handle: u32, call: &Call) -> Update {
    let table = objects.id(*table);
    Update::Modify { table, entry: handle.into(), act: act(objects, table, call) }
}

/// Deletes an entry.
pub(crate) fn delete(table: TableId, handle: u32) -> Update {
    Update::Delete { table, entry: handle.into() }
}

fn act(objects: &Objects, table: TableId, call: &Call) -> p4jet_control::Act {
    p4jet_control::Act::Action(objects.action(table, call))
}

/// The entries of one table.
fn of(
    entries: &std::collections::BTreeMap<(Table, Key), Call>,
    table: Table,
) -> impl Iterator<Item = (&(Table, Key), &Call)> {
    entries.range((table, Vec::new())..).take_while(move |((t, _), _)| *t == table)
}
