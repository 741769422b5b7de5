//! P4Runtime as the owner of notes: what other clients may change, and what their changes leave of a note.

use crate::notes::note;
use crate::profiles::check_one_shots;
use crate::value::{handle_of_id, id_of_handle, port, port_of};
use p4jet_control::{Control, ControlError, Note, NoteOwner, Noted, PartChange, Update};
use p4jet_p4info::proto::v1;
use prost::Message;
use std::fmt::Write as _;

/// P4Runtime as the owner of the notes of a switch ([`Control::set_note_owner`]).
pub struct Owner;

impl NoteOwner for Owner {
    fn check(&self, control: &Control, update: &Update) -> std::result::Result<(), ControlError> {
        check_one_shots(control, update)
    }

    /// Weights and ports of the other members of a group stay, and so does the metadata of an entry.
    fn after(&self, of: &Noted, note: &[u8], part: PartChange) -> Option<Note> {
        let bytes = match (of, part) {
            (Noted::Group(..), PartChange::Added(_) | PartChange::Removed(_)) => {
                let mut group = v1::ActionProfileGroup::decode(note).ok()?;
                match part {
                    PartChange::Added(member) => {
                        let member_id = id_of_handle(member);
                        group.members.push(v1::GroupMember { member_id, weight: 1, watch_kind: None });
                    }
                    PartChange::Removed(gone) => {
                        group.members.retain(|member| handle_of_id(member.member_id) != gone);
                    }
                    PartChange::Timeout => {}
                }
                group.encode_to_vec()
            }
            (_, PartChange::Timeout) => {
                let entry = v1::TableEntry::decode(note).ok()?;
                v1::TableEntry { idle_timeout_ns: 0, ..entry }.encode_to_vec()
            }
            _ => return None,
        };
        (!bytes.is_empty()).then(|| bytes.into_boxed_slice())
    }

    /// The backups of copies, in their order.
    fn describe(&self, control: &Control, of: &Noted) -> String {
        let replicas = match of {
            Noted::MulticastGroup(_) => note::<v1::MulticastGroupEntry>(control, of).map(|of| of.replicas),
            Noted::Session(_) => note::<v1::CloneSessionEntry>(control, of).map(|of| of.replicas),
            _ => None,
        };
        let mut lines = String::new();
        for replica in replicas.iter().flatten().filter(|replica| !replica.backup_replicas.is_empty()) {
            let copy =
                |port: Option<u32>, instance: u32| format!("rid={instance}, port={}", port.unwrap_or(0));
            let backups = replica.backup_replicas.iter().map(|b| copy(port(&b.port), b.instance));
            let backups = backups.collect::<Vec<_>>().join("; ");
            let preferred = copy(port_of(replica.port_kind.as_ref()), replica.instance);
            let _ = writeln!(lines, "backups of {preferred}: {backups}");
        }
        lines
    }
}
