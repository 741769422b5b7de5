//! Data of clients that the switch does not use: metadata, exact times, weights and ports in their original form. The control keeps
//! them as notes about the objects, each in the wire form of the message that it completes.

use crate::links::{port, port_of};
use crate::profiles::check_one_shots;
use crate::refusal::{Code, Reason, Refusal, Result};
use crate::table_entry::{handle_of_id, id_of_handle};
use crate::write::Writer;
use p4jet_control::{Control, ControlError, Note, NoteOwner, Noted, PartChange, Update};
use p4jet_p4info::proto::v1;
use prost::Message;
use std::fmt::Write as _;

/// Maximum length of an entity's metadata, in bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;

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

/// The note about an object, if it has this form.
pub(crate) fn note<M: Message + Default>(control: &Control, of: &Noted) -> Option<M> {
    M::decode(&*control.note(of)?).ok()
}

/// Refuses metadata that is too long to keep.
pub(crate) fn check_metadata(metadata: &[u8]) -> Result<()> {
    match metadata.len() <= METADATA_BYTES_MAX {
        true => Ok(()),
        false => {
            let found = metadata.len();
            let why = format!("the metadata has {found} bytes, expected at most {METADATA_BYTES_MAX}");
            Err(Refusal::new(Code::ResourceExhausted, Reason::Full, why))
        }
    }
}

impl Writer<'_> {
    /// Sets the note about an object; an empty message deletes it.
    pub(crate) fn set_note(&mut self, of: Noted, message: &impl Message) -> Result<()> {
        let text = message.encode_to_vec();
        if text.is_empty() && self.control.note(&of).is_none() {
            return Ok(());
        }
        let note = (!text.is_empty()).then(|| text.into_boxed_slice());
        self.make(Update::Note { of, note }).map(drop)
    }
}
