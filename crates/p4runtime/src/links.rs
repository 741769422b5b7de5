//! Ports that are watched: the watch ports of members, and the ports of copies that have backups.
//!
//! The notes of groups and sessions hold what clients wrote. The members and copies that packets use follow from the notes and from
//! the ports that are up: a Write sets them, and so does a change of a port ([`follow`]).

use crate::notes::note;
use crate::ports::{Ports, watched};
use crate::profiles::{handle_in, share};
use crate::refusal::Result;
use crate::replication::copies;
use crate::value::{port, port_of};
use p4jet_control::{Noted, SharedControl, Update};
use p4jet_p4info::proto::v1;

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
