//! Ports that are watched: the watch ports of members, and the ports of copies that have backups.
//!
//! The notes of groups and sessions hold what clients wrote. The members and copies that packets use follow from the notes and from
//! the ports that are up: a Write sets them, and so does a change of a port ([`follow`]).

use crate::notes::note;
use crate::profiles::{handle_in, share};
use crate::refusal::{Reason, Refusal, Result, choices};
use crate::replication::copies;
use crate::value::number;
use p4jet_control::{Noted, SharedControl, Update};
use p4jet_p4info::proto::v1::{self, EntityKind, PortKind, ReplicationType, WatchKind};
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

/// The number of a port.
pub(crate) fn port(bytes: &[u8]) -> Option<u32> {
    u32::try_from(&number(bytes, 32).ok()?).ok()
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

/// The port of a copy.
pub(crate) fn port_of(kind: Option<&PortKind>) -> Option<u32> {
    match kind? {
        PortKind::EgressPort(port) => Some(*port),
        PortKind::Port(bytes) => port(bytes),
    }
}

/// True if a copy with backups uses the changed port; with `None`, if any copy has backups.
fn has_backups(replicas: &[v1::Replica], changed: Option<u32>) -> bool {
    let concerned = |replica: &v1::Replica| {
        let ports = replica.backup_replicas.iter().map(|backup| port(&backup.port));
        let mut ports = ports.chain([port_of(replica.port_kind.as_ref())]).flatten();
        changed.is_none_or(|changed| ports.any(|port| port == changed))
    };
    replicas.iter().any(|replica| !replica.backup_replicas.is_empty() && concerned(replica))
}

/// Applies the state of ports to groups and copies: all, or those that concern the changed port. Returns a warning if the state file
/// could not be written.
///
/// # Errors
/// A change was refused; none has taken effect.
pub fn follow(switch: &SharedControl, changed: Option<u32>) -> Result<Option<String>> {
    let control = switch.control();
    let first = Noted::Group(p4jet_ir::InstanceId(0), 0);
    let objects = control.noted(first..=Noted::Session(u32::MAX));
    if objects.is_empty() {
        return Ok(None);
    }
    let ports = Ports::of(switch);
    let Some(batch) = switch.transaction(&control, objects.len()) else { return Ok(None) };
    let mut batch = batch.of_note_owner();
    let mut count = 0;
    for of in objects {
        let update = match &of {
            Noted::Group(profile, handle) => {
                let Some(group) = note::<v1::ActionProfileGroup>(&control, &of) else { continue };
                let concerned = |member: &v1::GroupMember| {
                    let watched = watched(member.watch_kind.as_ref());
                    watched.is_some_and(|port| changed.is_none_or(|changed| port == changed))
                };
                if !group.members.iter().any(concerned) {
                    continue;
                }
                let members =
                    group.members.iter().map(|member| share(&ports, handle_in(&group, member), member));
                let members = members.collect();
                Update::SetGroup { profile: *profile, group: (*handle).into(), members }
            }
            Noted::MulticastGroup(group) => {
                let Some(noted) = note::<v1::MulticastGroupEntry>(&control, &of) else { continue };
                if !has_backups(&noted.replicas, changed) {
                    continue;
                }
                Update::SetMulticastGroup { group: *group, replicas: Some(copies(&ports, &noted.replicas)) }
            }
            Noted::Session(session) => {
                let Some(noted) = note::<v1::CloneSessionEntry>(&control, &of) else { continue };
                if !has_backups(&noted.replicas, changed) {
                    continue;
                }
                crate::replication::session_update(*session, &noted, copies(&ports, &noted.replicas))
            }
            _ => continue,
        };
        // The change deletes the note.
        let note = control.note(&of);
        batch.write(update)?;
        batch.write(Update::Note { of, note })?;
        count += 1;
    }
    if count == 0 {
        return Ok(None);
    }
    Ok(batch.commit()?)
}
