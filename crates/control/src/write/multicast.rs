//! Changes multicast groups, nodes and link aggregation groups, and undoes it.

use super::undo::{Undo, UndoOther};
use crate::control::Control;
use crate::error::{CommandError, Result, Subject, taken};
use crate::made::{Kind, Made};
use crate::update::{Ref, Update};
use p4jet_externs::{Affected, Multicast, MulticastError, NODES_MAX, Node, Replica};
use std::collections::BTreeSet;

impl From<MulticastError> for CommandError {
    fn from(error: MulticastError) -> CommandError {
        let field = match error {
            MulticastError::InvalidGroup(_) => "group",
            MulticastError::InvalidNode(_) | MulticastError::InGroup(..) | MulticastError::NotInGroup(..) => {
                "node"
            }
            MulticastError::Full => return CommandError::refused(Subject::Multicast, error.code(), error),
        };
        CommandError::refused(Subject::Multicast, error.code(), error).field(field)
    }
}

/// Refuses the handle of a multicast node that no node can have.
pub(crate) fn check_node_handle(handle: u32) -> Result<()> {
    match handle < NODES_MAX {
        true => Ok(()),
        false => {
            let message = format!("found node {handle}, expected 0 to {}", NODES_MAX - 1);
            Err(CommandError::new(message).field("node"))
        }
    }
}

/// Removes a multicast group and its nodes. Returns the nodes; none if there is no such group.
fn take_group(m: &mut Multicast, group: u32) -> Option<Vec<(u32, Node)>> {
    let nodes = m.groups.remove(&group)?;
    Some(nodes.into_iter().filter_map(|handle| Some((handle, m.nodes.remove(&handle)?))).collect())
}

impl Control {
    pub(crate) fn change_multicast(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let node_of = |of: Ref| made.handle(of, Kind::Node, self.program());
        let (made, undo) = self.switch.state().change_multicast(|m| -> Result<_> {
            let (mut made, mut affected) = (None, Affected::None);
            let undo: Option<Undo>;
            match update {
                Update::CreateMulticastGroup(group) => {
                    let is_new = !m.groups.contains_key(&group);
                    m.create_group(group);
                    undo = is_new.then(|| Update::DestroyMulticastGroup(group).into());
                    affected = Affected::Group(group);
                }
                Update::DestroyMulticastGroup(group) => {
                    undo = m.groups.get(&group).map(|nodes| UndoOther::Group(group, nodes.clone()).into());
                    m.destroy_group(group);
                    affected = Affected::Group(group);
                }
                Update::SetMulticastGroup { group, replicas } => {
                    let gone = m.groups.get(&group).map_or(0, Vec::len);
                    m.check_room(replicas.as_ref().map_or(0, Vec::len).saturating_sub(gone))?;
                    undo = Some(UndoOther::MulticastGroup(group, take_group(m, group)).into());
                    if let Some(replicas) = replicas {
                        m.create_group(group);
                        for Replica { port, replication_id } in replicas {
                            let node = m.create_node(replication_id, [port].into(), BTreeSet::new())?;
                            m.associate(group, node)?;
                        }
                    }
                    affected = Affected::Group(group);
                }
                Update::CreateNode { replication_id, ports, lags } => {
                    let handle = match at {
                        None => m.create_node(replication_id, ports, lags)?,
                        Some(handle) if m.nodes.contains_key(&handle) => return Err(taken("node", handle)),
                        Some(handle) => {
                            check_node_handle(handle)?;
                            let node = Node { replication_id, ports, lags, group: None };
                            m.nodes.insert(handle, node);
                            handle
                        }
                    };
                    made = Some(handle);
                    undo = Some(Update::DestroyNode(handle.into()).into());
                }
                Update::UpdateNode { node, ports, lags } => {
                    let node = node_of(node)?;
                    let old = m.nodes.get(&node).cloned();
                    m.update_node(node, ports, lags)?;
                    affected = old.as_ref().and_then(|old| old.group).map_or(Affected::None, Affected::Group);
                    undo = old.map(|Node { ports, lags, .. }| {
                        Update::UpdateNode { node: node.into(), ports, lags }.into()
                    });
                }
                Update::Associate { group, node } => {
                    let node = node_of(node)?;
                    m.associate(group, node)?;
                    undo = Some(Update::Dissociate { group, node: node.into() }.into());
                    affected = Affected::Group(group);
                }
                Update::Dissociate { group, node } => {
                    let node = node_of(node)?;
                    let position = m.position(node);
                    m.dissociate(group, node)?;
                    undo = position.map(|position| UndoOther::InGroup(node, position).into());
                    affected = Affected::Group(group);
                }
                Update::DestroyNode(node) => {
                    let node = node_of(node)?;
                    let (old, position) = (m.nodes.get(&node).cloned(), m.position(node));
                    m.destroy_node(node)?;
                    affected = position.map_or(Affected::None, |(group, _)| Affected::Group(group));
                    undo = old.map(|old| UndoOther::Node(node, old, position).into());
                }
                Update::SetLag { lag, ports } => {
                    undo = Some(match m.lags.insert(lag, ports) {
                        Some(ports) => Update::SetLag { lag, ports }.into(),
                        None => UndoOther::NoLag(lag).into(),
                    });
                    affected = Affected::All;
                }
                _ => unreachable!("the caller chose the updates of multicast"),
            }
            Ok(((made, undo), affected))
        })?;
        if let Some(log) = log {
            log.extend(undo);
        }
        Ok(made)
    }

    pub(crate) fn undo_multicast(&self, undo: UndoOther) {
        match undo {
            UndoOther::Group(group, nodes) => self.put_back(Affected::Group(group), |m| {
                for node in &nodes {
                    m.nodes.entry(*node).and_modify(|node| node.group = Some(group));
                }
                m.groups.insert(group, nodes);
            }),
            UndoOther::InGroup(node, (group, position)) => {
                self.put_back(Affected::Group(group), |m| m.insert_into_group(node, group, position));
            }
            UndoOther::Node(handle, node, position) => {
                let affected = position.map_or(Affected::None, |(group, _)| Affected::Group(group));
                self.put_back(affected, |m| {
                    m.nodes.insert(handle, Node { group: None, ..node });
                    if let Some((group, position)) = position {
                        m.insert_into_group(handle, group, position);
                    }
                });
            }
            UndoOther::MulticastGroup(group, nodes) => self.put_back(Affected::Group(group), |m| {
                take_group(m, group);
                if let Some(nodes) = nodes {
                    m.groups.insert(group, nodes.iter().map(|(handle, _)| *handle).collect());
                    m.nodes.extend(nodes);
                }
            }),
            UndoOther::NoLag(lag) => self.put_back(Affected::All, |m| drop(m.lags.remove(&lag))),
            UndoOther::Multicast(old) => self.set_multicast(old),
            _ => unreachable!("the caller chose the steps of multicast"),
        }
    }

    pub(crate) fn set_multicast(&self, new: Multicast) {
        self.switch.state().set_multicast(new);
    }

    /// Changes multicast back.
    fn put_back(&self, affected: Affected, change: impl FnOnce(&mut Multicast)) {
        let done: std::result::Result<(), MulticastError> =
            self.switch.state().change_multicast(|multicast| {
                change(multicast);
                Ok(((), affected))
            });
        debug_assert!(done.is_ok(), "it cannot fail");
    }
}
