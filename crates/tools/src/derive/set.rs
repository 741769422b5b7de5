//! Entries that packets share: packets that need different entries for the same key are in different sets.

use super::trail::{Event, Found, Solution, Trail};
use num_bigint::BigUint;
use p4jet_control::Control;
use p4jet_dataplane::{Matched, Switch, Trace, TraceEvent};
use p4jet_ir::{Key, MatchKind, Program, ReplicaList, TableId};
use p4jet_text::Commands;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

type Keyed = (TableId, Vec<BigUint>);
type Call = (u32, Vec<BigUint>);

/// Packets and the entries that all of them need.
pub(super) struct Set {
    pub switch: Arc<Switch>,
    control: Control,
    /// The runtime commands so far.
    pub commands: Vec<String>,
    /// The frames with their ingress ports.
    pub frames: Vec<(u32, Vec<u8>)>,
    entries: HashMap<Keyed, Call>,
    /// Keys that no new entry may have.
    without: HashSet<Keyed>,
    defaults: HashMap<TableId, Call>,
    default_kept: HashSet<TableId>,
    /// Port and instance that groups and sessions send to.
    copies: HashMap<(ReplicaList, u32), (u32, u32)>,
}

/// The reason why a packet is not compatible with a set: a lookup or a copy on its path, or the switch.
pub(super) enum Conflict {
    Lookup(usize),
    Copies(usize),
    Refused,
}

impl Set {
    pub fn new(switch: Arc<Switch>) -> Set {
        Set {
            control: Control::new(Arc::clone(&switch)),
            switch,
            commands: Vec::new(),
            frames: Vec::new(),
            entries: HashMap::new(),
            without: HashSet::new(),
            defaults: HashMap::new(),
            default_kept: HashSet::new(),
            copies: HashMap::new(),
        }
    }

    /// Adds the entries for a packet, if they are compatible with the existing ones.
    pub fn add(&mut self, program: &Program, trail: &Trail, solution: &Solution) -> Result<(), Conflict> {
        let (mut entries, mut without) = (HashMap::new(), HashSet::new());
        let mut defaults = HashMap::new();
        let mut lines = Vec::new();
        for (index, (lookup, (keys, data))) in trail.lookups.iter().zip(&solution.lookups).enumerate() {
            let conflict = Err(Conflict::Lookup(index));
            let keyed = (lookup.table, keys.clone());
            let there = entries.get(&keyed).or_else(|| self.entries.get(&keyed));
            let default = defaults.get(&lookup.table).or_else(|| self.defaults.get(&lookup.table));
            match &lookup.found {
                Found::New(action, _) => {
                    let call = (*action, data.clone());
                    if without.contains(&keyed) || self.without.contains(&keyed) {
                        return conflict;
                    }
                    match there {
                        Some(there) if *there == call => {}
                        Some(_) => return conflict,
                        None => {
                            lines.push((lookup.table, Some(keys.clone()), call.clone()));
                            entries.insert(keyed, call);
                        }
                    }
                }
                Found::Default(action, _) => {
                    let call = (*action, data.clone());
                    match default {
                        Some(there) if *there == call => {}
                        Some(_) => return conflict,
                        None if self.default_kept.contains(&lookup.table) => return conflict,
                        None => {
                            lines.push((lookup.table, None, call.clone()));
                            defaults.insert(lookup.table, call);
                        }
                    }
                }
                Found::Old | Found::Miss => {
                    if there.is_some() || default.is_some() {
                        return conflict;
                    }
                    without.insert(keyed);
                }
            }
        }
        let mut copies = HashMap::new();
        for (index, (copy, [id, port, instance])) in trail.copies.iter().zip(&solution.copies).enumerate() {
            let (list, to) = ((copy.list, *id), (*port, *instance));
            match copies.get(&list).or_else(|| self.copies.get(&list)) {
                Some(there) if *there == to => {}
                Some(_) => return Err(Conflict::Copies(index)),
                None if self.is_configured(list) => return Err(Conflict::Copies(index)),
                None => _ = copies.insert(list, to),
            }
        }
        // After a refused command, earlier ones remain in effect.
        for (table, keys, call) in lines {
            if !self.command(program, table, keys.as_deref(), &call) {
                return Err(Conflict::Refused);
            }
            match keys {
                Some(keys) => _ = self.entries.insert((table, keys), call),
                None => _ = self.defaults.insert(table, call),
            }
        }
        let mut copies: Vec<_> = copies.into_iter().collect();
        copies.sort_unstable_by_key(|(list, _)| (list.0 == ReplicaList::Session, list.1));
        for (list, to) in copies {
            if self.copy_to(list, to).is_none() {
                return Err(Conflict::Refused);
            }
            self.copies.insert(list, to);
        }
        self.default_kept.extend(without.iter().map(|(table, _)| *table));
        self.without.extend(without);
        Ok(())
    }

    /// True if the group or session exists without a packet that needs it.
    fn is_configured(&self, (list, id): (ReplicaList, u32)) -> bool {
        let destinations = self.switch.state().destinations();
        match list {
            ReplicaList::Group => destinations.groups.get(id).is_some(),
            ReplicaList::Session => destinations.sessions.get(id).is_some(),
        }
    }

    /// Creates a group or session that sends to one port.
    fn copy_to(&mut self, (list, id): (ReplicaList, u32), (port, instance): (u32, u32)) -> Option<()> {
        if list == ReplicaList::Session {
            return self.execute(format!("mirroring_add {id} {port}")).map(drop);
        }
        self.execute(format!("mc_mgrp_create {id}"))?;
        let said = self.execute(format!("mc_node_create {instance} {port}"))?;
        let node: u32 = said.split_whitespace().last()?.parse().ok()?;
        self.execute(format!("mc_node_associate {id} {node}")).map(drop)
    }

    /// Runs the command that creates an entry or sets a default.
    fn command(&mut self, program: &Program, id: TableId, keys: Option<&[BigUint]>, call: &Call) -> bool {
        let table = &program.tables[id.index()];
        let action = &program.actions[table.actions[call.0 as usize].action.index()].control_name;
        let data: Vec<String> = call.1.iter().map(|value| format!("{value:#x}")).collect();
        let data = data.join(" ");
        let Some(keys) = keys else {
            return self.execute(format!("table_set_default {} {action} {data}", table.name)).is_some();
        };
        if table.hidden {
            let all = table.keys.iter().zip(keys).fold(BigUint::ZERO, |all, (k, v)| all << k.width | v);
            return self.execute(format!("pvs_add {} {all:#x}", table.name)).is_some();
        }
        let key: Vec<String> = table.keys.iter().zip(keys).map(|(key, value)| word(key, value)).collect();
        let key = key.join(" ");
        // With precedence over the user's own entries.
        let priority = if table.keys.iter().any(|key| key.kind.needs_priority()) { " 0" } else { "" };
        let line = match table.profile {
            None => format!("table_add {} {action} {key} => {data}{priority}", table.name),
            Some(profile) => {
                let profile = &program.instances[profile.index()].name;
                let Some(said) = self.execute(format!("act_prof_create_member {profile} {action} {data}"))
                else {
                    return false;
                };
                let Some(member) = said.split_whitespace().last().and_then(|w| w.parse::<u32>().ok()) else {
                    return false;
                };
                format!("table_indirect_add {} {key} => {member}{priority}", table.name)
            }
        };
        self.execute(line).is_some()
    }

    fn execute(&mut self, line: String) -> Option<String> {
        let said = self.control.execute(&line).ok()?;
        self.commands.push(line.trim_end().to_string());
        Some(said)
    }
}

/// Returns a key field that matches only this value.
fn word(key: &Key, value: &BigUint) -> String {
    match key.kind {
        MatchKind::Exact | MatchKind::Optional => format!("{value:#x}"),
        MatchKind::Lpm => format!("{value:#x}/{}", key.width),
        MatchKind::Ternary => format!("{value:#x}&&&{:#x}", p4jet_ir::eval::ones(key.width)),
        MatchKind::Range => format!("{value:#x}->{value:#x}"),
    }
}

/// Converts a trace to the events of a path.
pub(super) fn events(trace: &Trace) -> Vec<Event> {
    let events = trace.events.iter().filter_map(|event| match event {
        TraceEvent::Block { block } => Some(Event::Block(*block)),
        TraceEvent::Node { label } => Some(Event::Node(label.as_str().into())),
        TraceEvent::Apply { table, matched, .. } => {
            Some(Event::Apply { table: *table, hit: matches!(matched, Matched::Hit { .. }) })
        }
        TraceEvent::Action { action, .. } => Some(Event::Action(*action)),
        TraceEvent::CopyBegins { .. } => Some(Event::Copy),
        _ => None,
    });
    events.collect()
}

/// True if a trace follows this path. The events after the copies on the path do not matter.
pub(super) fn goes(trail: &Trail, found: &[Event]) -> bool {
    let own = trail.events.len();
    match found.get(own) {
        None => trail.events == found,
        Some(next) => trail.goes_on && *next == Event::Copy && trail.events == found[..own],
    }
}
