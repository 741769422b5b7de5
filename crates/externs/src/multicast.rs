//! Multicast groups as bmv2's packet replication engine has them: nodes in groups, each with a replication id, ports and link
//! aggregation groups.

use crate::Replica;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A node of the replication engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// What its copies get as replication id.
    pub instance: u32,
    /// A copy for each.
    pub ports: BTreeSet<u32>,
    /// A copy by one port of each.
    pub lags: BTreeSet<u32>,
    /// The group that it is in.
    pub group: Option<u32>,
}

/// What is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Multicast {
    /// The nodes of each group, in the order of their copies.
    pub groups: BTreeMap<u32, Vec<u32>>,
    /// Nodes by handle.
    pub nodes: BTreeMap<u32, Node>,
    /// The ports of link aggregation groups.
    pub lags: BTreeMap<u32, BTreeSet<u32>>,
}

/// Why a change was refused. Nothing has changed then.
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
}

impl MulticastError {
    /// The name that bmv2 gives to this error.
    pub fn code(self) -> &'static str {
        match self {
            MulticastError::InvalidGroup(_) => "INVALID_MGRP_HANDLE",
            MulticastError::InvalidNode(_) => "INVALID_L1_HANDLE",
            MulticastError::InGroup(..) | MulticastError::NotInGroup(..) => "ERROR",
        }
    }
}

impl fmt::Display for MulticastError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MulticastError::InvalidGroup(group) => write!(f, "there is no multicast group {group}"),
            MulticastError::InvalidNode(node) => write!(f, "no node has handle {node}"),
            MulticastError::InGroup(node, group) => {
                write!(f, "node {node} is in group {group} already, and a node is in one group at a time")
            }
            MulticastError::NotInGroup(node, group) => write!(f, "node {node} is not in group {group}"),
        }
    }
}

impl std::error::Error for MulticastError {}

impl Multicast {
    /// Makes a group without nodes; nothing if there is one of that number.
    pub fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
    }

    /// Takes a group away, if there is one. Its nodes stay.
    pub fn destroy_group(&mut self, group: u32) {
        for node in self.groups.remove(&group).unwrap_or_default() {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.group = None;
            }
        }
    }

    /// Makes a node; gives its handle, the smallest that is free.
    pub fn create_node(&mut self, instance: u32, ports: BTreeSet<u32>, lags: BTreeSet<u32>) -> u32 {
        let handle = (0..).find(|handle| !self.nodes.contains_key(handle)).expect("there are fewer nodes");
        self.nodes.insert(handle, Node { instance, ports, lags, group: None });
        handle
    }

    fn node(&mut self, node: u32) -> Result<&mut Node, MulticastError> {
        self.nodes.get_mut(&node).ok_or(MulticastError::InvalidNode(node))
    }

    /// Gives a node other ports.
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

    /// Puts a node into a group.
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

    /// Takes a node out of a group.
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

    /// Takes a node away, out of its group too.
    pub fn destroy_node(&mut self, node: u32) -> Result<(), MulticastError> {
        let group = self.node(node)?.group;
        if let Some(nodes) = group.and_then(|group| self.groups.get_mut(&group)) {
            nodes.retain(|n| *n != node);
        }
        self.nodes.remove(&node);
        Ok(())
    }

    /// The copies of a group, in order: by node; of each, ports first.
    pub(crate) fn replicas(&self, group: u32) -> Vec<Replica> {
        let mut replicas = Vec::new();
        for node in self.groups.get(&group).into_iter().flatten().filter_map(|node| self.nodes.get(node)) {
            let lags = node.lags.iter().filter_map(|lag| {
                let ports = self.lags.get(lag)?;
                // bmv2 has no hash of the packet here, but this number.
                ports.iter().nth(0xff_usize.checked_rem(ports.len())?)
            });
            let instance = node.instance;
            replicas.extend(node.ports.iter().chain(lags).map(|port| Replica { port: *port, instance }));
        }
        replicas
    }
}
