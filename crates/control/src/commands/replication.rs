//! Multicast groups and clone (mirroring) sessions.

use super::apply::{Done, Result, Undo, UndoOther};
use super::parse::{Command, Line, LineParser, Parsed, number};
use super::{Control, Reply, data};
use crate::error::CommandError;
use p4jet_externs::{Multicast, MulticastError, Replica, Session};
use std::collections::BTreeSet;

/// The largest port, group and replication id: 16 bits, as in bmv2.
const NUMBER_MAX: u64 = u16::MAX as u64;
/// The largest session, as in bmv2.
const SESSION_MAX: u64 = 32_767;
/// No frame has more bytes.
const BYTES_MAX: u64 = 65_535;

/// What a command does with the replication engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplicationCommand {
    CreateGroup(u32),
    DestroyGroup(u32),
    CreateNode {
        instance: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    },
    UpdateNode {
        node: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    },
    Associate {
        group: u32,
        node: u32,
    },
    Dissociate {
        group: u32,
        node: u32,
    },
    DestroyNode(u32),
    SetLag {
        lag: u32,
        ports: BTreeSet<u32>,
    },
    Dump,
    /// Its copies keep at most so many bytes.
    AddSession {
        session: u32,
        to: Mirror,
        bytes_max: Option<u32>,
    },
    DeleteSession(u32),
    GetSession(u32),
}

/// Where a session's copies go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mirror {
    Port(u32),
    Group(u32),
}

/// How to take a change back.
pub(super) enum UndoReplication {
    Multicast(Multicast),
    Session(u32, Option<Session>),
}

impl ReplicationCommand {
    pub(super) fn reads(&self) -> bool {
        matches!(self, ReplicationCommand::Dump | ReplicationCommand::GetSession(_))
    }

    /// What bmv2's CLI prints before it carries out a change.
    pub(super) fn announce(&self) -> String {
        use ReplicationCommand::*;
        match self {
            CreateGroup(group) => format!("Creating multicast group {group}\n"),
            DestroyGroup(group) => format!("Destroying multicast group {group}\n"),
            CreateNode { instance, ports, lags } => format!(
                "Creating node with rid {instance} , port map {} and lag map {}\n",
                map_text(ports),
                map_text(lags)
            ),
            UpdateNode { node, ports, lags } => {
                format!(
                    "Updating node {node} with port map {} and lag map {}\n",
                    map_text(ports),
                    map_text(lags)
                )
            }
            Associate { group, node } => format!("Associating node {node} to multicast group {group}\n"),
            Dissociate { group, node } => format!("Dissociating node {node} from multicast group {group}\n"),
            DestroyNode(node) => format!("Destroying node {node}\n"),
            SetLag { lag, ports } => format!("Setting lag membership: {lag} <- {}\n", map_text(ports)),
            Dump | AddSession { .. } | DeleteSession(_) | GetSession(_) => String::new(),
        }
    }
}

/// A set of numbers as bmv2 writes it: a digit for each number from the largest down to 0.
fn map_text(numbers: &BTreeSet<u32>) -> String {
    let max = numbers.last().map_or(0, |last| last + 1);
    (0..max).rev().map(|n| if numbers.contains(&n) { '1' } else { '0' }).collect()
}

fn listed(numbers: &BTreeSet<u32>) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn word(line: &Line<'_, '_>, at: usize, what: &str, max: u64) -> Parsed<u32> {
    // The limits are far below 2^32.
    number(line.get(at, what)?, what, max).map(|n| n as u32)
}

fn numbers(line: &Line<'_, '_>, at: std::ops::Range<usize>, what: &str) -> Parsed<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for at in at {
        let n = word(line, at, &format!("a {what} number"), NUMBER_MAX)?;
        if !numbers.insert(n) {
            let message = format!("Error: Found duplicate {what} number '{n}'");
            return Err(CommandError::new(message).at(line.tokens[at].span()));
        }
    }
    Ok(numbers)
}

/// Ports, then, behind a `|`, link aggregation groups.
fn ports_and_lags(line: &Line<'_, '_>, from: usize) -> Parsed<(BTreeSet<u32>, BTreeSet<u32>)> {
    let end = line.tokens.len();
    let bar = (from..end).find(|at| line.tokens[*at].text == "|").unwrap_or(end);
    Ok((numbers(line, from..bar, "port")?, numbers(line, (bar + 1).min(end)..end, "lag")?))
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn replication_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        use ReplicationCommand::*;
        let group = |at| {
            let group = word(line, at, "a multicast group", NUMBER_MAX)?;
            match group {
                0 => {
                    let message = "Error: found multicast group 0, which means none: expected 1 to 65535";
                    Err(CommandError::new(message).at(line.tokens[at].span()))
                }
                _ => Ok(group),
            }
        };
        let node = |at| word(line, at, "a node handle", u64::from(u32::MAX));
        let session = || word(line, 1, "a mirroring session", SESSION_MAX);
        let (command, end) = match line.spec.name {
            "mc_mgrp_create" => (CreateGroup(group(1)?), 2),
            "mc_mgrp_destroy" => (DestroyGroup(group(1)?), 2),
            "mc_node_create" => {
                let instance = word(line, 1, "a replication id", NUMBER_MAX)?;
                let (ports, lags) = ports_and_lags(line, 2)?;
                (CreateNode { instance, ports, lags }, line.tokens.len())
            }
            "mc_node_update" => {
                let node = node(1)?;
                // Without any, `|` says so: words that were forgotten take no ports away.
                line.get(2, "a port number")?;
                let (ports, lags) = ports_and_lags(line, 2)?;
                (UpdateNode { node, ports, lags }, line.tokens.len())
            }
            "mc_node_associate" => (Associate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_dissociate" => (Dissociate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_destroy" => (DestroyNode(node(1)?), 2),
            "mc_set_lag_membership" => {
                let lag = word(line, 1, "a lag number", NUMBER_MAX)?;
                line.get(2, "a port number")?;
                (SetLag { lag, ports: numbers(line, 2..line.tokens.len(), "port")? }, line.tokens.len())
            }
            "mc_dump" => (Dump, 1),
            "mirroring_add" => {
                let to = Mirror::Port(word(line, 2, "a port", u64::from(u32::MAX))?);
                // As elsewhere, 0 bytes mean all.
                let bytes_max = match line.tokens.len() {
                    ..4 => None,
                    _ => Some(word(line, 3, "a number of bytes", BYTES_MAX)?).filter(|bytes| *bytes > 0),
                };
                (AddSession { session: session()?, to, bytes_max }, line.tokens.len().clamp(3, 4))
            }
            "mirroring_add_mc" => {
                let to = Mirror::Group(group(2)?);
                (AddSession { session: session()?, to, bytes_max: None }, 3)
            }
            "mirroring_delete" => (DeleteSession(session()?), 2),
            "mirroring_get" => (GetSession(session()?), 2),
            other => unreachable!("command {other} is listed but not parsed"),
        };
        line.ends_after(end)?;
        Ok(Command::Replication(command))
    }
}

fn refused(error: MulticastError) -> CommandError {
    CommandError::refused("PRE", error.code(), error)
}

fn no_session(session: u32) -> CommandError {
    CommandError::refused("mirroring", "SESSION_NOT_FOUND", format!("there is no session {session}"))
}

impl Control {
    /// About groups and sessions.
    pub(super) fn replication_reply(&self, command: &ReplicationCommand, data: bool) -> Result<Reply> {
        let ReplicationCommand::GetSession(session) = command else {
            let multicast = self.switch.state().multicast();
            return Ok(Reply::new(dump(&multicast), data.then(|| data::multicast(&multicast))));
        };
        let destinations = self.switch.state().destinations();
        let found = destinations.sessions.get(session).ok_or_else(|| no_session(*session))?;
        let or_none = |n: Option<u32>| n.map_or("None".to_string(), |n| n.to_string());
        let port = or_none(found.replicas.first().map(|replica| replica.port));
        let bytes = found.bytes_max.map_or(String::new(), |bytes| format!(", bytes={bytes}"));
        let text = format!("MirroringSessionConfig(port={port}, mgid={}{bytes})\n", or_none(found.group));
        Ok(Reply::new(text, data.then(|| data::session(found))))
    }

    pub(super) fn change_replication(
        &self,
        command: ReplicationCommand,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<Done> {
        use ReplicationCommand::*;
        let state = self.switch.state();
        let mut done = Done::default();
        let undo = match command {
            AddSession { session, .. } | DeleteSession(session) => {
                let old = state.destinations().sessions.get(&session).cloned();
                let new = match command {
                    AddSession { to: Mirror::Port(port), bytes_max, .. } => {
                        let replicas = vec![Replica { port, instance: 0 }];
                        Some(Session { replicas, bytes_max, ..Session::default() })
                    }
                    AddSession { to: Mirror::Group(group), bytes_max, .. } => {
                        Some(Session { group: Some(group), bytes_max, ..Session::default() })
                    }
                    _ if old.is_none() => return Err(no_session(session)),
                    _ => None,
                };
                self.set_session(session, new);
                UndoReplication::Session(session, old)
            }
            command => {
                let old = state.multicast();
                let changed = state.change_multicast(|multicast| match command {
                    CreateGroup(group) => {
                        multicast.create_group(group);
                        Ok(())
                    }
                    DestroyGroup(group) => {
                        multicast.destroy_group(group);
                        Ok(())
                    }
                    CreateNode { instance, ports, lags } => {
                        let handle = multicast.create_node(instance, ports, lags);
                        done.made = Some(handle);
                        done.told = Some(format!("node was created with handle {handle}\n"));
                        Ok(())
                    }
                    UpdateNode { node, ports, lags } => multicast.update_node(node, ports, lags),
                    Associate { group, node } => multicast.associate(group, node),
                    Dissociate { group, node } => multicast.dissociate(group, node),
                    DestroyNode(node) => multicast.destroy_node(node),
                    SetLag { lag, ports } => {
                        multicast.lags.insert(lag, ports);
                        Ok(())
                    }
                    Dump | GetSession(_) | AddSession { .. } | DeleteSession(_) => {
                        unreachable!("not a change of groups")
                    }
                });
                changed.map_err(refused)?;
                UndoReplication::Multicast(old)
            }
        };
        if let Some(log) = log {
            log.push(Undo::Other(Box::new(UndoOther::Replication(undo))));
        }
        Ok(done)
    }

    fn set_session(&self, number: u32, session: Option<Session>) {
        self.switch.state().change_destinations(|destinations| match session {
            Some(session) => drop(destinations.sessions.insert(number, session)),
            None => drop(destinations.sessions.remove(&number)),
        });
    }

    pub(super) fn take_back_replication(&self, undo: UndoReplication) {
        match undo {
            UndoReplication::Session(number, session) => self.set_session(number, session),
            UndoReplication::Multicast(old) => self.set_multicast(old),
        }
    }

    pub(super) fn set_multicast(&self, new: Multicast) {
        let done: std::result::Result<(), MulticastError> =
            self.switch.state().change_multicast(|multicast| {
                *multicast = new;
                Ok(())
            });
        debug_assert!(done.is_ok(), "it cannot fail");
    }

    /// Takes all groups, nodes and sessions away.
    pub(super) fn clear_replication(&self, mut log: Option<&mut Vec<Undo>>) {
        let mut note = |undo| {
            if let Some(log) = &mut log {
                log.push(Undo::Other(Box::new(UndoOther::Replication(undo))));
            }
        };
        let state = self.switch.state();
        note(UndoReplication::Multicast(state.multicast()));
        self.set_multicast(Multicast::default());
        for (number, session) in &state.destinations().sessions {
            note(UndoReplication::Session(*number, Some(session.clone())));
            self.set_session(*number, None);
        }
    }
}

fn dump(multicast: &Multicast) -> String {
    let mut out = "==========\nMC ENTRIES\n".to_string();
    for (group, nodes) in &multicast.groups {
        out += &format!("**********\nmgrp({group})\n");
        for (handle, node) in nodes.iter().filter_map(|n| Some((n, multicast.nodes.get(n)?))) {
            out += &format!(
                "  -> (L1h={handle}, rid={}) -> (ports=[{}], lags=[{}])\n",
                node.instance,
                listed(&node.ports),
                listed(&node.lags)
            );
        }
    }
    out += "==========\nLAGS\n";
    for (lag, ports) in &multicast.lags {
        out += &format!("lag({lag}) -> ports=[{}]\n", listed(ports));
    }
    out + "==========\n"
}
