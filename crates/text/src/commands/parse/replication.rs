//! Multicast groups and clone (mirroring) sessions.

use super::{Command, Line, LineParser, Parsed, number};
use crate::error::LineError;
use p4jet_control::schema::{MULTICAST_MAX, SESSION_BYTES_MAX, SESSION_MAX, check_group, multicast_port_max};
use p4jet_control::{CloneDestination, Update};
use std::collections::BTreeSet;

fn word(line: &Line<'_, '_>, at: usize, what: &str, max: u64) -> Parsed<u32> {
    // The limits are far below 2^32.
    number(line.get(at, what)?, what, max).map(|n| n as u32)
}

fn numbers(line: &Line<'_, '_>, at: std::ops::Range<usize>, what: &str, max: u32) -> Parsed<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    for at in at {
        let n = word(line, at, &format!("a {what} number"), u64::from(max))?;
        if !numbers.insert(n) {
            let message = format!("Error: Found duplicate {what} number '{n}'");
            return Err(LineError::new(message).at(line.tokens[at].span()));
        }
    }
    Ok(numbers)
}

/// Ports, then, after a `|`, link aggregation groups.
fn ports_and_lags(line: &Line<'_, '_>, from: usize, port_max: u32) -> Parsed<(BTreeSet<u32>, BTreeSet<u32>)> {
    let end = line.tokens.len();
    let bar = (from..end).find(|at| line.tokens[*at].text == "|").unwrap_or(end);
    let ports = numbers(line, from..bar, "port", port_max)?;
    Ok((ports, numbers(line, (bar + 1).min(end)..end, "lag", MULTICAST_MAX)?))
}

impl<'a> LineParser<'_, 'a> {
    pub(super) fn replication_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let group = |at| {
            let group = word(line, at, "a multicast group", u64::from(MULTICAST_MAX))?;
            check_group(group).map_err(|e| LineError::from(e).at(line.tokens[at].span()))?;
            Ok::<_, LineError>(group)
        };
        let node = |at| self.handle(line.get(at, "a node handle")?, "a node handle");
        let session = || word(line, 1, "a clone session", u64::from(SESSION_MAX));
        let port_max = multicast_port_max(self.program);
        let (update, end) = match line.spec.name {
            "mc_mgrp_create" => (Update::CreateMulticastGroup(group(1)?), 2),
            "mc_mgrp_destroy" => (Update::DestroyMulticastGroup(group(1)?), 2),
            "mc_node_create" => {
                let replication_id = word(line, 1, "a replication id", u64::from(MULTICAST_MAX))?;
                let (ports, lags) = ports_and_lags(line, 2, port_max)?;
                (Update::CreateNode { replication_id, ports, lags }, line.tokens.len())
            }
            "mc_node_update" => {
                let node = node(1)?;
                // An empty list is written as `|`, so that forgotten words do not remove ports.
                line.get(2, "a port number")?;
                let (ports, lags) = ports_and_lags(line, 2, port_max)?;
                (Update::UpdateNode { node, ports, lags }, line.tokens.len())
            }
            "mc_node_associate" => (Update::Associate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_dissociate" => (Update::Dissociate { group: group(1)?, node: node(2)? }, 3),
            "mc_node_destroy" => (Update::DestroyNode(node(1)?), 2),
            "mc_set_lag_membership" => {
                let lag = word(line, 1, "a lag number", u64::from(MULTICAST_MAX))?;
                line.get(2, "a port number")?;
                (
                    Update::SetLag { lag, ports: numbers(line, 2..line.tokens.len(), "port", port_max)? },
                    line.tokens.len(),
                )
            }
            "mc_dump" => {
                line.ends_after(1)?;
                return Ok(Command::MulticastDump);
            }
            "mirroring_add" => {
                let to = CloneDestination::Port(word(line, 2, "a port", u64::from(self.program.port_max()))?);
                // As elsewhere, 0 bytes mean no limit.
                let bytes_max = match line.tokens.len() {
                    ..4 => None,
                    _ => Some(word(line, 3, "a number of bytes", u64::from(SESSION_BYTES_MAX))?)
                        .filter(|bytes| *bytes > 0),
                };
                (Update::SetSession { session: session()?, to, bytes_max }, line.tokens.len().clamp(3, 4))
            }
            "mirroring_add_mc" => {
                let to = CloneDestination::Group(group(2)?);
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
