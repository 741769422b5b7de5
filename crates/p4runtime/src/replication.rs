//! Multicast groups and clone sessions.
//!
//! Their notes are the messages as clients sent them, so that Reads return ports in the same form.

use crate::notes::{check_metadata, note};
use crate::ports::Ports;
use crate::refusal::{Code, Reason, Refusal, Result};
use crate::value::{port, port_of, short_u64};
use crate::write::Writer;
use p4jet_control::schema::{CopyCheck, SESSION_BYTES_MAX, SESSION_MAX, check_class, check_group};
use p4jet_control::{Control, Noted, Replica, Update};
use p4jet_externs::{Group, Session};
use p4jet_p4info::proto::v1::{
    self, CloneSessionEntry, MulticastGroupEntry, PortKind, ReplicationType, UpdateType,
};

fn invalid<T>(what: &str, why: String) -> Result<T> {
    Err(Refusal::invalid(Reason::Form, format!("{what}: {why}")))
}

impl Writer<'_> {
    /// Applies an update of a multicast group or clone session.
    pub(crate) fn replication(
        &mut self,
        kind: UpdateType,
        entry: &v1::PacketReplicationEngineEntry,
    ) -> Result<()> {
        // it belongs to the default role, unless a role's configuration grants everything.
        self.role.check(0, "packet replication", Some("packet_replication_engine_manager"))?;
        match &entry.r#type {
            Some(ReplicationType::MulticastGroupEntry(group)) => self.multicast_group(kind, group),
            Some(ReplicationType::CloneSessionEntry(session)) => self.clone_session(kind, session),
            None => {
                invalid("packet replication", "neither a multicast group nor a clone session is set".into())
            }
        }
    }

    fn multicast_group(&mut self, kind: UpdateType, entry: &MulticastGroupEntry) -> Result<()> {
        let group = entry.multicast_group_id;
        let what = format!("multicast group {group}");
        check_group(group).map_err(|error| {
            let refusal = Refusal::from(error).of(&what);
            match group {
                0 => refusal,
                _ => Refusal { code: Code::OutOfRange, reason: Reason::Index, ..refusal },
            }
        })?;
        let exists = self.control.switch().state().with_multicast(|m| m.groups().contains_key(&group));
        if kind == UpdateType::Delete {
            check_existence(kind, &what, exists)?;
            return self.make(Update::SetMulticastGroup { group, replicas: None }).map(drop);
        }
        let replicas = self.replicas(&what, &entry.replicas)?;
        check_metadata(&entry.metadata)?;
        check_existence(kind, &what, exists)?;
        self.make(Update::SetMulticastGroup { group, replicas: Some(replicas) })?;
        let note = MulticastGroupEntry {
            multicast_group_id: 0,
            replicas: shortest_ports(&entry.replicas),
            ..entry.clone()
        };
        self.set_note(Noted::MulticastGroup(group), &note)
    }

    fn clone_session(&mut self, kind: UpdateType, entry: &CloneSessionEntry) -> Result<()> {
        let session = entry.session_id;
        let what = format!("clone session {session}");
        if !(1..=SESSION_MAX).contains(&session) {
            return invalid(&what, format!("expected 1 to {SESSION_MAX}"));
        }
        let exists = self.control.switch().state().destinations().sessions.get(session).is_some();
        if kind == UpdateType::Delete {
            check_existence(kind, &what, exists)?;
            return self.make(Update::DeleteSession(session)).map(drop);
        }
        let replicas = self.replicas(&what, &entry.replicas)?;
        check_class(entry.class_of_service).map_err(|error| Refusal::from(error).of(&what))?;
        if entry.packet_length_bytes < 0 {
            return invalid(
                &what,
                format!("found the length {}, expected 0 or more", entry.packet_length_bytes),
            );
        }
        check_existence(kind, &what, exists)?;
        self.make(session_update(session, entry, replicas))?;
        let replicas = shortest_ports(&entry.replicas);
        let note = CloneSessionEntry { session_id: 0, replicas, ..entry.clone() };
        self.set_note(Noted::Session(session), &note)
    }

    /// The copies of a group or session. Backups count as copies for the check.
    fn replicas(&self, what: &str, given: &[v1::Replica]) -> Result<Vec<Replica>> {
        let refused = |error| Refusal::from(error).of(what);
        let mut copies_checked = CopyCheck::new(self.control.program(), given.len()).map_err(refused)?;
        let mut check = |port: u32, instance: u32| {
            copies_checked.check(Replica { port, replication_id: instance }).map_err(refused)
        };
        for (n, replica) in (1..).zip(given) {
            let own = match &replica.port_kind {
                Some(PortKind::EgressPort(port)) => Ok(*port),
                Some(PortKind::Port(bytes)) => checked_port(bytes),
                None => Err("it has no port".to_string()),
            };
            let own = own.or_else(|why| invalid(what, format!("replica {n}: {why}")))?;
            check(own, replica.instance)?;
            for (m, backup) in (1..).zip(&replica.backup_replicas) {
                let port = checked_port(&backup.port);
                let port = port.or_else(|why| invalid(what, format!("backup {m} of replica {n}: {why}")))?;
                check(port, backup.instance)?;
                if port == own {
                    return invalid(what, format!("a backup of the replica at port {own} has the same port"));
                }
            }
        }
        Ok(copies(&self.ports, given))
    }
}

/// The number of a port, or what is wrong with it.
fn checked_port(bytes: &[u8]) -> std::result::Result<u32, String> {
    match port(bytes) {
        Some(port) => Ok(port),
        None if bytes.is_empty() => Err("its port is empty".to_string()),
        None => Err("its port has more than 32 bits".to_string()),
    }
}

/// The copies while these ports are up. A copy with backups goes to the first port that is up; if none is, it is left out.
pub(crate) fn copies(ports: &Ports, replicas: &[v1::Replica]) -> Vec<Replica> {
    let copy = |replica: &v1::Replica| {
        let own = Replica { port: port_of(replica.port_kind.as_ref())?, replication_id: replica.instance };
        if replica.backup_replicas.is_empty() {
            return Some(own);
        }
        let backups = replica.backup_replicas.iter();
        let backups = backups.filter_map(|backup| {
            Some(Replica { port: port(&backup.port)?, replication_id: backup.instance })
        });
        [own].into_iter().chain(backups).find(|copy| ports.is_up(copy.port))
    };
    replicas.iter().filter_map(copy).collect()
}

/// The replicas as Reads show them: ports have as few bytes as possible (G-11).
fn shortest_ports(given: &[v1::Replica]) -> Vec<v1::Replica> {
    let shortest = |bytes: &mut bytes::Bytes| {
        if let Some(port) = port(bytes) {
            *bytes = short_u64(port.into());
        }
    };
    let mut replicas = given.to_vec();
    for replica in &mut replicas {
        if let Some(PortKind::Port(port)) = &mut replica.port_kind {
            shortest(port);
        }
        replica.backup_replicas.iter_mut().for_each(|backup| shortest(&mut backup.port));
    }
    replicas
}

/// The update that creates a clone session with these copies.
pub(crate) fn session_update(session: u32, entry: &CloneSessionEntry, replicas: Vec<Replica>) -> Update {
    // No frame is longer.
    let bytes_max = u32::try_from(entry.packet_length_bytes).ok().filter(|bytes| *bytes > 0);
    let bytes_max = bytes_max.map(|bytes| bytes.min(SESSION_BYTES_MAX));
    Update::SetReplicas { session, replicas, class_of_service: entry.class_of_service, bytes_max }
}

fn check_existence(kind: UpdateType, what: &str, exists: bool) -> Result<()> {
    match (kind, exists) {
        (UpdateType::Insert, true) => {
            Err(Refusal::new(Code::AlreadyExists, Reason::Exists, format!("{what} already exists")))
        }
        (UpdateType::Modify | UpdateType::Delete, false) => {
            Err(Refusal::new(Code::NotFound, Reason::Absent, format!("there is no {what}")))
        }
        _ => Ok(()),
    }
}

fn replica(copy: &Replica) -> v1::Replica {
    let port_kind = Some(PortKind::Port(short_u64(copy.port.into())));
    v1::Replica { port_kind, instance: copy.replication_id, ..v1::Replica::default() }
}

/// A multicast group in the form of P4Runtime.
pub(crate) fn show_group(control: &Control, group: u32) -> MulticastGroupEntry {
    if let Some(noted) = note::<MulticastGroupEntry>(control, &Noted::MulticastGroup(group)) {
        return MulticastGroupEntry { multicast_group_id: group, ..noted };
    }
    let destinations = control.switch().state().destinations();
    let replicas = destinations.groups.get(group).into_iter().flat_map(Group::replicas);
    MulticastGroupEntry {
        multicast_group_id: group,
        replicas: replicas.map(|copy| replica(&copy)).collect(),
        ..MulticastGroupEntry::default()
    }
}

/// A clone session in the form of P4Runtime.
pub(crate) fn show_session(control: &Control, number: u32, session: &Session) -> CloneSessionEntry {
    if let Some(noted) = note::<CloneSessionEntry>(control, &Noted::Session(number)) {
        return CloneSessionEntry { session_id: number, ..noted };
    }
    CloneSessionEntry {
        session_id: number,
        replicas: session.replicas.iter().map(replica).collect(),
        class_of_service: session.class_of_service,
        packet_length_bytes: session.bytes_max.map_or(0, |bytes| bytes as i32),
    }
}
