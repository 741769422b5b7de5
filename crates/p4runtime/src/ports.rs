//! The state of a switch's ports, on which updates with watch ports or backups depend.

use crate::refusal::{Reason, Refusal, Result, choices};
use crate::value::port;
use p4jet_control::SharedControl;
use p4jet_p4info::proto::v1::{self, EntityKind, ReplicationType, WatchKind};
use std::collections::BTreeMap;

/// The ports of a switch, with their state. A switch that does not know its ports counts all as up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports(Option<BTreeMap<u32, bool>>);

impl Ports {
    /// Asks the workers for their ports; they answer between two batches of packets.
    pub fn of(switch: &SharedControl) -> Ports {
        let ports = switch.ports().ok();
        Ports(ports.map(|ports| ports.into_iter().map(|port| (port.port, port.up)).collect()))
    }

    fn is_there(&self, port: u32) -> bool {
        self.0.as_ref().is_none_or(|ports| ports.contains_key(&port))
    }

    /// The ports, for messages.
    fn choices(&self) -> String {
        choices(self.0.iter().flatten().map(|(port, _)| (*port, "")))
    }

    /// True if packets can leave by the port.
    pub fn is_up(&self, port: u32) -> bool {
        self.0.as_ref().is_none_or(|ports| ports.get(&port).is_some_and(|up| *up))
    }
}

/// The port that a member watches; `None` if it watches none.
pub(crate) fn watched(watch: Option<&WatchKind>) -> Option<u32> {
    match watch? {
        WatchKind::WatchPort(bytes) if bytes.is_empty() => None,
        WatchKind::WatchPort(bytes) => port(bytes),
        // Deprecated: 0 is no port.
        WatchKind::Watch(port) => u32::try_from(*port).ok().filter(|port| *port != 0),
    }
}

/// Refuses a watch port that does not exist.
pub(crate) fn check_watch(ports: &Ports, watch: Option<&WatchKind>) -> Result<()> {
    let is_unset = match watch {
        None => true,
        Some(WatchKind::WatchPort(bytes)) => bytes.is_empty(),
        Some(WatchKind::Watch(port)) => *port == 0,
    };
    if is_unset {
        return Ok(());
    }
    match watched(watch) {
        Some(port) if ports.is_there(port) => Ok(()),
        found => {
            let found = found.map_or("a number that no port has".to_string(), |port| format!("port {port}"));
            let why =
                format!("the watch port is {found}, expected a port of the switch: {}", ports.choices());
            Err(Refusal::invalid(Reason::Form, why))
        }
    }
}

/// True if updates depend on the state of ports.
pub(crate) fn depend_on_ports(updates: &[v1::Update]) -> bool {
    updates.iter().any(|update| match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(EntityKind::ActionProfileGroup(group)) => {
            group.members.iter().any(|member| member.watch_kind.is_some())
        }
        Some(EntityKind::TableEntry(entry)) => {
            match entry.action.as_ref().and_then(|act| act.r#type.as_ref()) {
                Some(v1::TableActionType::ActionProfileActionSet(set)) => {
                    set.action_profile_actions.iter().any(|action| action.watch_kind.is_some())
                }
                _ => false,
            }
        }
        Some(EntityKind::PacketReplicationEngineEntry(entry)) => {
            let replicas = match &entry.r#type {
                Some(ReplicationType::MulticastGroupEntry(group)) => &group.replicas[..],
                Some(ReplicationType::CloneSessionEntry(session)) => &session.replicas[..],
                None => &[],
            };
            replicas.iter().any(|replica| !replica.backup_replicas.is_empty())
        }
        _ => false,
    })
}
