//! Multicast groups as in bmv2's packet replication engine: nodes in groups, each with a replication id, ports and link
//! aggregation groups.

use crate::{Group, Replica};
use rangemap::RangeInclusiveSet;
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
    /// The group that contains it, and its position there.
    place: Option<Place>,
}

/// A group and a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The group.
    pub group: u32,
    position: u64,
}

impl Node {
    /// A node that is in no group.
    pub fn new(replication_id: u32, ports: BTreeSet<u32>, lags: BTreeSet<u32>) -> Node {
        Node { replication_id, ports, lags, place: None }
    }

    /// Returns the group that contains the node, with its position.
    pub fn place(&self) -> Option<Place> {
        self.place
    }
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multicast {
    groups: BTreeMap<u32, Group>,
    nodes: BTreeMap<u32, Node>,
    lags: BTreeMap<u32, BTreeSet<u32>>,
    /// The link aggregation groups with the nodes that use them.
    users: BTreeSet<(u32, u32)>,
    /// The handles that no node has.
    free: RangeInclusiveSet<u32>,
    /// The groups that changed since [`Multicast::take_changed`].
    changed: BTreeSet<u32>,
}

impl Default for Multicast {
    fn default() -> Multicast {
        Multicast {
            groups: BTreeMap::new(),
            nodes: BTreeMap::new(),
            lags: BTreeMap::new(),
            users: BTreeSet::new(),
            free: [0..=NODES_MAX - 1].into_iter().collect(),
            changed: BTreeSet::new(),
        }
    }
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
    /// Returns the groups, by number.
    pub fn groups(&self) -> &BTreeMap<u32, Group> {
        &self.groups
    }

    /// Returns the nodes, by handle.
    pub fn nodes(&self) -> &BTreeMap<u32, Node> {
        &self.nodes
    }

    /// Returns the ports of the link aggregation groups.
    pub fn lags(&self) -> &BTreeMap<u32, BTreeSet<u32>> {
        &self.lags
    }

    /// Returns the groups that changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Creates a group without nodes, unless the group exists.
    pub fn create_group(&mut self, group: u32) {
        self.groups.entry(group).or_default();
        self.changed.insert(group);
    }

    /// Removes a group and returns it, if it exists. Its nodes remain.
    pub fn destroy_group(&mut self, group: u32) -> Option<Group> {
        let found = self.groups.remove(&group)?;
        self.changed.insert(group);
        for node in found.nodes() {
            self.nodes.entry(node).and_modify(|node| node.place = None);
        }
        Some(found)
    }

    /// Puts a group back that [`Multicast::destroy_group`] removed. Its nodes are as they were then.
    pub fn restore_group(&mut self, group: u32, old: Group) {
        for (position, node) in old.places() {
            self.nodes.entry(node).and_modify(|node| node.place = Some(Place { group, position }));
        }
        self.groups.insert(group, old);
        self.changed.insert(group);
    }

    /// Removes a group and its nodes, and returns them; `None` if there is no such group.
    pub fn take_group(&mut self, group: u32) -> Option<(Group, Vec<(u32, Node)>)> {
        let found = self.destroy_group(group)?;
        let nodes = found.nodes().filter_map(|node| Some((node, self.remove_node(node)?))).collect();
        Some((found, nodes))
    }

    /// Creates a node and returns its handle, the smallest free one.
    ///
    /// # Errors
    ///
    /// There are too many nodes.
    pub fn create_node(
        &mut self,
        replication_id: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    ) -> Result<u32, MulticastError> {
        self.check_room(1)?;
        let handle = *self.free.first().ok_or(MulticastError::Full)?.start();
        self.insert_node(handle, Node::new(replication_id, ports, lags));
        Ok(handle)
    }

    /// Adds a node that is in no group, under a free handle below [`NODES_MAX`].
    pub fn insert_node(&mut self, handle: u32, node: Node) {
        self.free.remove(handle..=handle);
        self.users.extend(node.lags.iter().map(|lag| (*lag, handle)));
        self.nodes.insert(handle, Node { place: None, ..node });
    }

    fn remove_node(&mut self, handle: u32) -> Option<Node> {
        let node = self.nodes.remove(&handle)?;
        for lag in &node.lags {
            self.users.remove(&(*lag, handle));
        }
        self.free.insert(handle..=handle);
        Some(node)
    }

    /// Checks that this many more nodes are allowed.
    ///
    /// # Errors
    ///
    /// There would be too many.
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
    ///
    /// # Errors
    ///
    /// There is no such node.
    pub fn update_node(
        &mut self,
        node: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    ) -> Result<(), MulticastError> {
        let new = lags.iter().map(|lag| (*lag, node)).collect::<Vec<_>>();
        let found = self.node(node)?;
        found.ports = ports;
        let old = std::mem::replace(&mut found.lags, lags);
        for lag in old {
            self.users.remove(&(lag, node));
        }
        self.users.extend(new);
        self.renew_copies(node);
        Ok(())
    }

    /// Adds a node to a group, as the last one.
    ///
    /// # Errors
    ///
    /// There is no such node or group, or the node is in a group already.
    pub fn associate(&mut self, group: u32, node: u32) -> Result<(), MulticastError> {
        let now = self.node(node)?.place;
        let copies = self.copies(node);
        let nodes = self.groups.get_mut(&group).ok_or(MulticastError::InvalidGroup(group))?;
        if let Some(now) = now {
            return Err(MulticastError::InGroup(node, now.group));
        }
        let position = nodes.push(node, &copies);
        self.node(node)?.place = Some(Place { group, position });
        self.changed.insert(group);
        Ok(())
    }

    /// Removes a node from a group.
    ///
    /// # Errors
    ///
    /// There is no such node or group, or the node is not in this group.
    pub fn dissociate(&mut self, group: u32, node: u32) -> Result<(), MulticastError> {
        let now = self.node(node)?.place;
        let nodes = self.groups.get_mut(&group).ok_or(MulticastError::InvalidGroup(group))?;
        let Some(place) = now.filter(|place| place.group == group) else {
            return Err(MulticastError::NotInGroup(node, group));
        };
        nodes.remove(place.position);
        self.node(node)?.place = None;
        self.changed.insert(group);
        Ok(())
    }

    /// Puts a node that is in no group back to where it was.
    pub fn put_back(&mut self, node: u32, place: Place) {
        let copies = self.copies(node);
        if let (Some(nodes), Some(found)) = (self.groups.get_mut(&place.group), self.nodes.get_mut(&node)) {
            nodes.set(place.position, node, &copies);
            found.place = Some(place);
            self.changed.insert(place.group);
        }
    }

    /// Deletes a node, and removes it from its group.
    ///
    /// # Errors
    ///
    /// There is no such node.
    pub fn destroy_node(&mut self, node: u32) -> Result<(), MulticastError> {
        if let Some(place) = self.node(node)?.place {
            self.dissociate(place.group, node)?;
        }
        self.remove_node(node);
        Ok(())
    }

    /// Sets the ports of a link aggregation group, or removes it. Returns what it was.
    pub fn set_lag(&mut self, lag: u32, ports: Option<BTreeSet<u32>>) -> Option<BTreeSet<u32>> {
        let old = match ports {
            Some(ports) => self.lags.insert(lag, ports),
            None => self.lags.remove(&lag),
        };
        let users = self.users.range((lag, 0)..=(lag, u32::MAX));
        for node in users.map(|(_, node)| *node).collect::<Vec<_>>() {
            self.renew_copies(node);
        }
        old
    }

    /// Returns the copies of a node, those of its ports first.
    fn copies(&self, node: u32) -> Vec<Replica> {
        let Some(node) = self.nodes.get(&node) else { return Vec::new() };
        let lags = node.lags.iter().filter_map(|lag| {
            let ports = self.lags.get(lag)?;
            // bmv2 uses this number instead of a hash of the packet.
            ports.iter().nth(0xff_usize.checked_rem(ports.len())?)
        });
        let replication_id = node.replication_id;
        node.ports.iter().chain(lags).map(|port| Replica { port: *port, replication_id }).collect()
    }

    fn renew_copies(&mut self, node: u32) {
        if let Some(place) = self.nodes.get(&node).and_then(Node::place) {
            self.put_back(node, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_node_gets_the_smallest_free_handle() {
        let create = |handles: &[u32]| {
            let mut multicast = Multicast::default();
            handles.iter().for_each(|handle| multicast.insert_node(*handle, Node::default()));
            multicast.create_node(1, BTreeSet::new(), BTreeSet::new())
        };
        assert_eq!(create(&[]), Ok(0));
        assert_eq!(create(&[0, 1]), Ok(2));
        assert_eq!(create(&[0, 2, 3]), Ok(1));
        assert_eq!(create(&[NODES_MAX - 1]), Ok(0));
        assert_eq!(create(&[0, NODES_MAX - 1]), Ok(1));
        let all: Vec<u32> = (0..NODES_MAX).collect();
        assert_eq!(create(&all[1..]), Ok(0));
        assert_eq!(create(&all), Err(MulticastError::Full));
    }

    /// Scripts build groups node by node: a step must not go over all nodes, nor may a new port of a link aggregation group.
    #[test]
    fn large_groups_change_in_small_steps() {
        let started = std::time::Instant::now();
        let mut multicast = Multicast::default();
        multicast.insert_node(NODES_MAX - 1, Node::default());
        multicast.create_group(1);
        for port in 0..50_000 {
            let node = multicast.create_node(1, [port % 500].into(), BTreeSet::new()).unwrap();
            multicast.associate(1, node).unwrap();
        }
        assert_eq!(multicast.groups()[&1].replicas().count(), 50_000);
        for node in 0..50_000 {
            multicast.update_node(node, [7].into(), BTreeSet::new()).unwrap();
            multicast.dissociate(1, node).unwrap();
        }
        for port in 0..50_000 {
            multicast.set_lag(port % 5, Some([port].into()));
        }
        assert!(multicast.groups()[&1].is_empty() && started.elapsed().as_secs() < 10);
    }

    #[test]
    fn copies_follow_nodes_and_lags() {
        let mut multicast = Multicast::default();
        multicast.set_lag(3, Some([8, 9].into()));
        let nodes = [[1].into(), [2].into(), [4].into()];
        let nodes = nodes.map(|ports| multicast.create_node(5, ports, [3].into()).unwrap());
        multicast.create_group(6);
        nodes.iter().for_each(|node| multicast.associate(6, *node).unwrap());
        let ports = |multicast: &Multicast| {
            multicast.groups()[&6].replicas().map(|replica| replica.port).collect::<Vec<_>>()
        };
        assert_eq!(ports(&multicast), [1, 9, 2, 9, 4, 9]);
        assert_eq!(multicast.take_changed(), [6].into());
        multicast.set_lag(3, Some([7].into()));
        assert_eq!((ports(&multicast), multicast.take_changed()), (vec![1, 7, 2, 7, 4, 7], [6].into()));
        multicast.update_node(nodes[1], [2, 3].into(), BTreeSet::new()).unwrap();
        assert_eq!(ports(&multicast), [1, 7, 2, 3, 4, 7]);
        let place = multicast.nodes()[&nodes[1]].place().unwrap();
        multicast.dissociate(6, nodes[1]).unwrap();
        assert_eq!(ports(&multicast), [1, 7, 4, 7]);
        multicast.put_back(nodes[1], place);
        assert_eq!(ports(&multicast), [1, 7, 2, 3, 4, 7]);
        let group = multicast.destroy_group(6).unwrap();
        assert!(multicast.nodes().values().all(|node| node.place().is_none()));
        multicast.restore_group(6, group);
        assert_eq!(ports(&multicast), [1, 7, 2, 3, 4, 7]);
        assert_eq!(multicast.nodes()[&nodes[1]].place(), Some(place));
        multicast.destroy_node(nodes[0]).unwrap();
        assert_eq!(ports(&multicast), [2, 3, 4, 7]);
        multicast.set_lag(3, Some([5].into()));
        assert_eq!(ports(&multicast), [2, 3, 4, 5]);
        multicast.update_node(nodes[1], [2].into(), [3, 4].into()).unwrap();
        multicast.set_lag(4, Some([6].into()));
        assert_eq!(ports(&multicast), [2, 5, 6, 4, 5]);
        multicast.set_lag(3, None);
        assert_eq!(ports(&multicast), [2, 6, 4]);
        assert_eq!(multicast.take_group(6).unwrap().1.len(), 2);
        assert!(multicast.users.is_empty());
        assert!(multicast.nodes().is_empty());
        assert_eq!(multicast.create_node(1, BTreeSet::new(), BTreeSet::new()), Ok(0));
    }
}
