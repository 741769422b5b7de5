//! Multicast groups and clone (mirroring) sessions.

use super::parse::{Command, Line, LineParser, Parsed, number};
use super::{Control, Reply, data};
use crate::error::CommandError;
use crate::schema::{MULTICAST_MAX, SESSION_BYTES_MAX, SESSION_MAX, check_group};
use crate::update::{Mirror, Ref, Update};
use crate::write::{Result, no_session};
use p4jet_externs::Multicast;
use std::collections::BTreeSet;

/// What bmv2's CLI prints before it carries out a change of multicast.
pub(super) fn announce(update: &Update) -> String {
    let handle = |of: &Ref| match of {
        Ref::Handle(handle) | Ref::Made(handle) => *handle,
    };
    match update {
        Update::CreateMulticastGroup(group) => format!("Creating multicast group {group}\n"),
        Update::DestroyMulticastGroup(group) => format!("Destroying multicast group {group}\n"),
        Update::CreateNode { instance, ports, lags } => format!(
            "Creating node with rid {instance} , port map {} and lag map {}\n",
            map_text(ports),
            map_text(lags)
        ),
        Update::UpdateNode { node, ports, lags } => format!(
            "Updating node {} with port map {} and lag map {}\n",
            handle(node),
            map_text(ports),
            map_text(lags)
        ),
        Update::Associate { group, node } => {
            format!("Associating node {} to multicast group {group}\n", handle(node))
        }
        Update::Dissociate { group, node } => {
            format!("Dissociating node {} from multicast group {group}\n", handle(node))
        }
        Update::DestroyNode(node) => format!("Destroying node {}\n", handle(node)),
        Update::SetLag { lag, ports } => format!("Setting lag membership: {lag} <- {}\n", map_text(ports)),
        _ => String::new(),
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
        let n = word(line, at, &format!("a {what} number"), u64::from(MULTICAST_MAX))?;
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
        let group = |at| {
            let group = word(line, at, "a multicast group", u64::from(MULTICAST_MAX))?;
            check_group(group).map_err(|e| e.at(line.tokens[at].span()))?;
            Ok::<_, CommandError>(group)
        };
        let node = |at| self.handle(line.get(at, "a node handle")?, "a node handle");
        let session = || word(line, 1, "a mirroring session", u64::from(SESSION_MAX));
        let (update, end) = match line.spec.name {
            "mc_mgrp_create" => (Update::CreateMulticastGroup(group(1)?), 2),
            "mc_mgrp_destroy" => (Update::DestroyMulticastGroup(group(1)?), 2),
            "mc_node_create" => {
                let instance = word(line, 1, "a replication id", u64::from(MULTICAST_MAX))?;
                let (ports, lags) = ports_and_lags(line, 2)?;
                (Update::CreateNode { instance, ports, lags }, line.tokens.len())
            }
            "mc_node_update" => {
                let node = node(1)?;
                // Without any, `|` says so: words that were forgotten take no ports away.
                line.get(2, "a port number")?;
                let (ports, lags) = ports_and_lags(line, 2)?;
                (Update::UpdateNode { node, ports, lags }, line.tokens.len())
            }
            "mc_node_associate" => (Update::Associate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_dissociate" => (Update::Dissociate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_destroy" => (Update::DestroyNode(node(1)?), 2),
            "mc_set_lag_membership" => {
                let lag = word(line, 1, "a lag number", u64::from(MULTICAST_MAX))?;
                line.get(2, "a port number")?;
                (
                    Update::SetLag { lag, ports: numbers(line, 2..line.tokens.len(), "port")? },
                    line.tokens.len(),
                )
            }
            "mc_dump" => {
                line.ends_after(1)?;
                return Ok(Command::MulticastDump);
            }
            "mirroring_add" => {
                let to = Mirror::Port(word(line, 2, "a port", u64::from(u32::MAX))?);
                // As elsewhere, 0 bytes mean all.
                let bytes_max = match line.tokens.len() {
                    ..4 => None,
                    _ => Some(word(line, 3, "a number of bytes", u64::from(SESSION_BYTES_MAX))?)
                        .filter(|bytes| *bytes > 0),
                };
                (Update::SetSession { session: session()?, to, bytes_max }, line.tokens.len().clamp(3, 4))
            }
            "mirroring_add_mc" => {
                let to = Mirror::Group(group(2)?);
                (Update::SetSession { session: session()?, to, bytes_max: None }, 3)
            }
            "mirroring_delete" => (Update::DeleteSession(session()?), 2),
            "mirroring_get" => {
                let session = session()?;
                line.ends_after(2)?;
                return Ok(Command::SessionRead(session));
            }
            other => unreachable!("command {other} is listed but not parsed"),
        };
        line.ends_after(end)?;
        Ok(update.into())
    }
}

impl Control {
    /// About all groups.
    pub(super) fn multicast_reply(&self, data: bool) -> Reply {
        let multicast = self.switch.state().multicast();
        Reply::new(dump(&multicast), data.then(|| data::multicast(&multicast)))
    }

    /// About a session.
    pub(super) fn session_reply(&self, session: u32, data: bool) -> Result<Reply> {
        let destinations = self.switch.state().destinations();
        let found = destinations.sessions.get(&session).ok_or_else(|| no_session(session))?;
        let or_none = |n: Option<u32>| n.map_or("None".to_string(), |n| n.to_string());
        let port = or_none(found.replicas.first().map(|replica| replica.port));
        let bytes = found.bytes_max.map_or(String::new(), |bytes| format!(", bytes={bytes}"));
        let text = format!("MirroringSessionConfig(port={port}, mgid={}{bytes})\n", or_none(found.group));
        Ok(Reply::new(text, data.then(|| data::session(found))))
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
