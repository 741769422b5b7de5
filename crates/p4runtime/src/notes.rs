//! Data of clients that the switch does not use: metadata, exact times, weights and ports in their original form. The control keeps
//! them as notes about the objects, each in the wire form of the message that it completes.

use crate::refusal::{Code, Reason, Refusal, Result};
use crate::write::Writer;
use p4jet_control::{Control, Noted, Update};
use prost::Message;

/// Maximum length of an entity's metadata, in bytes.
const METADATA_BYTES_MAX: usize = 64 * 1024;

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
