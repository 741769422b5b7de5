//! Changes multicast groups, nodes and link aggregation groups, and undoes it.

use super::undo::{Undo, UndoOther};
use crate::control::Control;
use crate::error::{ControlError, Result, Subject, taken};
use crate::made::{Kind, Made};
use crate::update::{Ref, Update};
use p4jet_externs::{Group, Multicast, MulticastError, NODES_MAX, Node, Replica};
use std::collections::BTreeSet;

impl From<MulticastError> for ControlError {
    fn from(error: MulticastError) -> ControlError {
        let field = match error {
            MulticastError::InvalidGroup(_) => "group",
            MulticastError::InvalidNode(_) | MulticastError::InGroup(..) | MulticastError::NotInGroup(..) => {
                "node"
            }
            MulticastError::Full => return ControlError::refused(Subject::Multicast, error.code(), error),
        };
        ControlError::refused(Subject::Multicast, error.code(), error).field(field)
    }
}

/// Refuses the handle of a multicast node that no node can have.
pub(crate) fn check_node_handle(handle: u32) -> Result<()> {
    match handle < NODES_MAX {
        true => Ok(()),
        false => {
            let message = format!("found node {handle}, expected 0 to {}", NODES_MAX - 1);
            Err(ControlError::new(message).field("node"))
        }
    }
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
            let mut made = None;
            let undo: Option<Undo>;
            match update {
                Update::CreateMulticastGroup(group) => {
                    let is_new = !m.groups().contains_key(&group);
                    m.create_group(group);
                    undo = is_new.then(|| Update::DestroyMulticastGroup(group).into());
                }
                Update::DestroyMulticastGroup(group) => {
                    undo = m.destroy_group(group).map(|old| UndoOther::Group(group, old).into());
                }
                Update::SetMulticastGroup { group, replicas } => {
                    let gone = m.groups().get(&group).map_or(0, Group::len);
                    m.check_room(replicas.as_ref().map_or(0, Vec::len).saturating_sub(gone))?;
                    undo = Some(UndoOther::MulticastGroup(group, m.take_group(group)).into());
                    if let Some(replicas) = replicas {
                        m.create_group(group);
                        for Replica { port, replication_id } in replicas {
                            let node = m.create_node(replication_id, [port].into(), BTreeSet::new())?;
                            m.associate(group, node)?;
                        }
                    }
                }
                Update::CreateNode { replication_id, ports, lags } => {
                    let handle = match at {
                        None => m.create_node(replication_id, ports, lags)?,
                        Some(handle) if m.nodes().contains_key(&handle) => return Err(taken("node", handle)),
                        Some(handle) => {
                            check_node_handle(handle)?;
                            m.insert_node(handle, Node::new(replication_id, ports, lags));
                            handle
                        }
                    };
                    made = Some(handle);
                    undo = Some(Update::DestroyNode(handle.into()).into());
                }
                Update::UpdateNode { node, ports, lags } => {
                    let node = node_of(node)?;
                    let old = m.nodes().get(&node).cloned();
                    m.update_node(node, ports, lags)?;
                    undo = old.map(|Node { ports, lags, .. }| {
                        Update::UpdateNode { node: node.into(), ports, lags }.into()
                    });
                }
                Update::Associate { group, node } => {
                    let node = node_of(node)?;
                    m.associate(group, node)?;
                    undo = Some(Update::Dissociate { group, node: node.into() }.into());
                }
                Update::Dissociate { group, node } => {
                    let node = node_of(node)?;
                    let place = m.nodes().get(&node).and_then(Node::place);
                    m.dissociate(group, node)?;
                    undo = place.map(|place| UndoOther::InGroup(node, place).into());
                }
                Update::DestroyNode(node) => {
                    let node = node_of(node)?;
                    let old = m.nodes().get(&node).cloned();
                    m.destroy_node(node)?;
                    undo = old.map(|old| UndoOther::Node(node, old).into());
                }
                Update::SetLag { lag, ports } => {
                    undo = Some(match m.set_lag(lag, Some(ports)) {
                        Some(ports) => Update::SetLag { lag, ports }.into(),
                        None => UndoOther::NoLag(lag).into(),
                    });
                }
                _ => unreachable!("the caller chose the updates of multicast"),
            }
            Ok((made, undo))
        })?;
        if let Some(log) = log {
            log.extend(undo);
        }
        Ok(made)
    }

    pub(crate) fn undo_multicast(&self, undo: UndoOther) {
        match undo {
            UndoOther::Group(group, old) => self.put_back(|m| m.restore_group(group, old)),
            UndoOther::InGroup(node, place) => self.put_back(|m| m.put_back(node, place)),
            UndoOther::Node(handle, node) => self.put_back(|m| {
                let place = node.place();
                m.insert_node(handle, node);
                if let Some(place) = place {
                    m.put_back(handle, place);
                }
            }),
            UndoOther::MulticastGroup(group, old) => self.put_back(|m| {
                m.take_group(group);
                if let Some((old, nodes)) = old {
                    nodes.into_iter().for_each(|(handle, node)| m.insert_node(handle, node));
                    m.restore_group(group, old);
                }
            }),
            UndoOther::NoLag(lag) => self.put_back(|m| drop(m.set_lag(lag, None))),
            UndoOther::Multicast(old) => self.set_multicast(old),
            _ => unreachable!("the caller chose the steps of multicast"),
        }
    }

    pub(crate) fn set_multicast(&self, new: Multicast) {
        self.switch.state().set_multicast(new);
    }

    /// Changes multicast back.
    fn put_back(&self, change: impl FnOnce(&mut Multicast)) {
        let done: std::result::Result<(), MulticastError> =
            self.switch.state().change_multicast(|multicast| {
                change(multicast);
                Ok(())
            });
        debug_assert!(done.is_ok(), "it cannot fail");
    }
}
