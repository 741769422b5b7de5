//! Multicast groups and clone (mirroring) sessions.

use super::{Answerer, Reply, Result, data};
use p4jet_control::{Entity, Noted, Ref, Selector, Update};
use p4jet_externs::Node;
use std::collections::{BTreeSet, HashMap};

/// The output of bmv2's CLI before a change of multicast.
pub(super) fn announce(update: &Update) -> String {
    let handle = |of: &Ref| match of {
        Ref::Handle(handle) | Ref::Made(handle) => *handle,
    };
    match update {
        Update::CreateMulticastGroup(group) => format!("Creating multicast group {group}\n"),
        Update::DestroyMulticastGroup(group) => format!("Destroying multicast group {group}\n"),
        Update::CreateNode { replication_id, ports, lags } => format!(
            "Creating node with rid {replication_id} , port map {} and lag map {}\n",
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

/// A set of numbers in bmv2's notation: a digit for each number from the largest down to 0.
fn map_text(numbers: &BTreeSet<u32>) -> String {
    let max = numbers.last().map_or(0, |last| last + 1);
    (0..max).rev().map(|n| if numbers.contains(&n) { '1' } else { '0' }).collect()
}

fn listed(numbers: &BTreeSet<u32>) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl Answerer<'_> {
    /// Describes all groups.
    pub(super) fn multicast_reply(self, data: bool) -> Result<Reply> {
        let (mut groups, mut nodes, mut lags) = (Vec::new(), HashMap::new(), Vec::new());
        for selector in [Selector::MulticastGroups, Selector::Nodes, Selector::Lags] {
            self.read_all(&selector, |entity| match entity {
                Entity::MulticastGroup(group, handles) => groups.push((group, handles)),
                Entity::Node(handle, node) => drop(nodes.insert(handle, node)),
                Entity::Lag(lag, ports) => lags.push((lag, ports)),
                _ => {}
            })?;
        }
        // A node is in one group at most. One that was destroyed meanwhile is left out.
        let mut node = |handle| Some((handle, nodes.remove(&handle)?));
        let groups = groups.into_iter();
        let groups: Vec<(u32, Vec<(u32, Node)>)> = groups
            .map(|(group, handles)| (group, handles.into_iter().filter_map(&mut node).collect()))
            .collect();
        Ok(Reply::new(self.dump_multicast(&groups, &lags), data.then(|| data::multicast(&groups, &lags))))
    }

    /// Describes a session.
    pub(super) fn session_reply(self, session: u32, data: bool) -> Result<Reply> {
        let page = self.control.read(&Selector::Session(session), 0, 1)?;
        let Some(Entity::Session(_, found)) = page.entities.first() else { return Ok(Reply::default()) };
        let or_none = |n: Option<u32>| n.map_or("None".to_string(), |n| n.to_string());
        let port = or_none(found.replicas.first().map(|replica| replica.port));
        let bytes = found.bytes_max.map_or(String::new(), |bytes| format!(", bytes={bytes}"));
        let mut text = format!("MirroringSessionConfig(port={port}, mgid={}{bytes})\n", or_none(found.group));
        text += &self.noted(&Noted::Session(session));
        Ok(Reply::new(text, data.then(|| data::session(found))))
    }

    /// What another client noted about an object.
    fn noted(self, of: &Noted) -> String {
        self.control.describe_note(of).lines().map(|line| format!("  ({line})\n")).collect()
    }

    fn dump_multicast(self, groups: &[(u32, Vec<(u32, Node)>)], lags: &[(u32, BTreeSet<u32>)]) -> String {
        let mut out = "==========\nMC ENTRIES\n".to_string();
        for (number, nodes) in groups {
            out += &format!("**********\nmgrp({number})\n");
            for (handle, node) in nodes {
                out += &format!(
                    "  -> (L1h={handle}, rid={}) -> (ports=[{}], lags=[{}])\n",
                    node.replication_id,
                    listed(&node.ports),
                    listed(&node.lags)
                );
            }
            out += &self.noted(&Noted::MulticastGroup(*number));
        }
        out += "==========\nLAGS\n";
        for (lag, ports) in lags {
            out += &format!("lag({lag}) -> ports=[{}]\n", listed(ports));
        }
        out + "==========\n"
    }
}
