//! Multicast groups as in bmv2's packet replication engine: nodes in groups, each with a replication id, ports and link
//! aggregation groups.

use crate::Replica;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum number of nodes; their handles are below it.
pub const NODES_MAX: u32 = 1 << 20;

/// A node of the replication engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The replication id of its copies.
    pub replication_id: u32,
    /// Ports; there is one copy for each.
    pub ports: BTreeSet<u32>,
    /// Link aggregation groups; there is one copy, by one port of the group, for each.
    pub lags: BTreeSet<u32>,
    /// The group that contains it.
    pub group: Option<u32>,
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Multicast {
    /// The nodes of each group, in the order of their copies.
    pub groups: BTreeMap<u32, Vec<u32>>,
    /// Nodes by handle.
    pub nodes: BTreeMap<u32, Node>,
    /// The ports of link aggregation groups.
    pub lags: BTreeMap<u32, BTreeSet<u32>>,
}

/// The groups whose copies a change affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affected {
    /// None.
    None,
    /// One, which may be new or gone.
    Group(u32),
    /// Perhaps all; none is new or gone.
    All,
}

/// The reason why a change was refused. A refused change has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MulticastError {
    /// There is no such group.
    InvalidGroup(u32),
    /// There is no such node.
    InvalidNode(u32),
    /// The node is in a group already: the second number.
    InGroup(u32, u32),
    /// The node is not in the group: the second number.
    NotInGroup(u32, u32),
    /// There are [`NODES_MAX`] nodes already.
    Full,
}

impl MulticastError {
    /// Returns the name of this error in bmv2.
    pub fn code(self) -> &'static str {
        match self {
            MulticastError::InvalidGroup(_) => "INVALID_MGRP_HANDLE",
            MulticastError::InvalidNode(_) => "INVALID_L1_HANDLE",
            MulticastError::InGroup(..) | MulticastError::NotInGroup(..) => "ERROR",
            MulticastError::Full => "TABLE_FULL",
        }
    }
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MulticastError::InvalidGroup(group) => write!(f, "there is no multicast group {group}"),
            MulticastError::InvalidNode(node) => write!(f, "no node has handle {node}"),
            MulticastError::InGroup(node, group) => {
                write!(f, "node {node} is already in group {group}; a node belongs to only one group")
            }
            MulticastError::NotInGroup(node, group) => write!(f, "node {node} is not in group {group}"),
            MulticastError::Full => write!(f, "there are {NODES_MAX} multicast nodes, which is the limit"),
        }
    }
}

impl std::error::Error for MulticastError {}

impl Multicast {
    /// Creates a group without nodes, unless the group exists.
    pub fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
    }

    /// Removes a group, if it exists. Its nodes remain.
    pub fn destroy_group(&mut self, group: u32) {
        for node in self.groups.remove(&group).unwrap_or_default() {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.group = None;
            }
        }
    }

    /// Creates a node and returns its handle, the smallest free one.
    pub fn create_node(
        &mut self,
        replication_id: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    ) -> Result<u32, MulticastError> {
        self.check_room(1)?;
        let count = self.nodes.len() as u32;
        // Without gaps, which is usual, it follows the last one.
        let handle = match self.nodes.last_key_value() {
            Some((last, _)) if *last >= count => {
                self.nodes.keys().zip(0..).find(|(used, n)| **used != *n).map_or(count, |(_, n)| n)
            }
            _ => count,
        };
        self.nodes.insert(handle, Node { replication_id, ports, lags, group: None });
        Ok(handle)
    }

    /// Checks that this many more nodes are allowed.
    pub fn check_room(&self, more: usize) -> Result<(), MulticastError> {
        match self.nodes.len().saturating_add(more) <= NODES_MAX as usize {
            true => Ok(()),
            false => Err(MulticastError::Full),
        }
    }

    fn node(&mut self, node: u32) -> Result<&mut Node, MulticastError> {
        self.nodes.get_mut(&node).ok_or(MulticastError::InvalidNode(node))
    }

    /// Changes the ports of a node.
    pub fn update_node(
        &mut self,
        node: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    ) -> Result<(), MulticastError> {
        let node = self.node(node)?;
        (node.ports, node.lags) = (ports, lags);
        Ok(())
    }

    /// Adds a node to a group.
    pub fn associate(&mut self, group: u32, node: u32) -> Result<(), MulticastError> {
        let now = self.node(node)?.group;
        let nodes = self.groups.get_mut(&group).ok_or(MulticastError::InvalidGroup(group))?;
        if let Some(now) = now {
            return Err(MulticastError::InGroup(node, now));
        }
        nodes.push(node);
        self.node(node)?.group = Some(group);
        Ok(())
    }

    /// Removes a node from a group.
    pub fn dissociate(&mut self, group: u32, node: u32) -> Result<(), MulticastError> {
        let now = self.node(node)?.group;
        let nodes = self.groups.get_mut(&group).ok_or(MulticastError::InvalidGroup(group))?;
        if now != Some(group) {
            return Err(MulticastError::NotInGroup(node, group));
        }
        nodes.retain(|n| *n != node);
        self.node(node)?.group = None;
        Ok(())
    }

    /// Returns the group of a node and its position there, if it is in one.
    pub fn position(&self, node: u32) -> Option<(u32, usize)> {
        let group = self.nodes.get(&node)?.group?;
        Some((group, self.groups.get(&group)?.iter().position(|n| *n == node)?))
    }

    /// Puts a node that is in no group into one, at this position.
    pub fn insert_into_group(&mut self, node: u32, group: u32, position: usize) {
        if let (Some(nodes), Some(found)) = (self.groups.get_mut(&group), self.nodes.get_mut(&node)) {
            nodes.insert(position.min(nodes.len()), node);
            found.group = Some(group);
        }
    }

    /// Deletes a node, and removes it from its group.
    pub fn destroy_node(&mut self, node: u32) -> Result<(), MulticastError> {
        let group = self.node(node)?.group;
        if let Some(nodes) = group.and_then(|group| self.groups.get_mut(&group)) {
            nodes.retain(|n| *n != node);
        }
        self.nodes.remove(&node);
        Ok(())
    }

    /// Returns the copies of a group, ordered by node; ports of a node come first.
    pub(crate) fn replicas(&self, group: u32) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for node in self.groups.get(&group).into_iter().flatten().filter_map(|node| self.nodes.get(node)) {
            let lags = node.lags.iter().filter_map(|lag| {
                let ports = self.lags.get(lag)?;
                // bmv2 uses this number instead of a hash of the packet.
                ports.iter().nth(0xff_usize.checked_rem(ports.len())?)
            });
            let replication_id = node.replication_id;
            replicas
                .extend(node.ports.iter().chain(lags).map(|port| Replica { port: *port, replication_id }));
        }
        replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_gets_the_smallest_free_handle() {
        let mut multicast = Multicast::default();
        let mut create = |handles: &[u32]| {
            multicast.nodes = handles.iter().map(|handle| (*handle, Node::default())).collect();
            multicast.create_node(1, BTreeSet::new(), BTreeSet::new())
        };
        assert_eq!(create(&[]), Ok(0));
        assert_eq!(create(&[0, 1]), Ok(2));
        assert_eq!(create(&[0, 2, 3]), Ok(1));
        assert_eq!(create(&[u32::MAX]), Ok(0));
        assert_eq!(create(&[0, u32::MAX]), Ok(1));
        let all: Vec<u32> = (0..NODES_MAX).collect();
        assert_eq!(create(&all[1..]), Ok(0));
        assert_eq!(create(&all), Err(MulticastError::Full));
    }
}
