//! Multicast groups and clone (mirroring) sessions.

use super::{Answerer, Reply, Result, data};
use p4jet_control::{Noted, Ref, Update, no_session};
use p4jet_externs::Multicast;
use std::collections::BTreeSet;

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
    pub(super) fn multicast_reply(self, data: bool) -> Reply {
        let multicast = self.switch().state().multicast();
        Reply::new(self.dump_multicast(&multicast), data.then(|| data::multicast(&multicast)))
    }

    /// Describes a session.
    pub(super) fn session_reply(self, session: u32, data: bool) -> Result<Reply> {
        let destinations = self.switch().state().destinations();
        let found = destinations.sessions.get(session).ok_or_else(|| no_session(session))?;
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

    fn dump_multicast(self, multicast: &Multicast) -> String {
        let mut out = "==========\nMC ENTRIES\n".to_string();
        for (number, group) in multicast.groups() {
            out += &format!("**********\nmgrp({number})\n");
            for (handle, node) in group.nodes().filter_map(|n| Some((n, multicast.nodes().get(&n)?))) {
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
        for (lag, ports) in multicast.lags() {
            out += &format!("lag({lag}) -> ports=[{}]\n", listed(ports));
        }
        out + "==========\n"
    }
}
