//! State that the server keeps in the notes of the control, so that it survives reloads, and restarts with a state file: numbers of
//! texts, configurations of digests, highest election ids of roles.

use crate::digests::Wanted;
use crate::notes::note;
use crate::pipeline::Pipeline;
use crate::refusal::Result;
use crate::write::Writer;
use p4jet_control::{Control, Noted, SharedControl, Update};
use p4jet_p4info::proto::v1;

/// Prefix of the names of notes about texts; the number of the text and its URI follow.
const TEXT: &str = "p4runtime text ";
/// Prefix of the names of notes about roles; the name of the role follows.
const ROLE: &str = "p4runtime role ";

/// The contents of all notes whose name begins with `prefix`, with the rest of the name.
fn own(control: &Control, prefix: &str) -> Vec<(String, Box<[u8]>)> {
    let range = Noted::Own(prefix.into())..=Noted::Own(format!("{prefix}{}", char::MAX).into());
    let of = |of: Noted| {
        let Noted::Own(name) = &of else { return None };
        Some((name.strip_prefix(prefix)?.to_string(), control.note(&of)?))
    };
    control.noted(range).into_iter().filter_map(of).collect()
}

impl Pipeline {
    /// Restores the numbers of texts and the wanted digests.
    pub(crate) fn take_kept(&self, control: &Control) {
        for (name, text) in own(control, TEXT) {
            let known = name.split_once(' ').and_then(|(number, uri)| {
                let space = self.uris().iter().position(|known| known == uri)?;
                Some((space, number.parse().ok()?))
            });
            let text = std::str::from_utf8(&text).ok().and_then(|text| text.strip_prefix('='));
            if let (Some((space, number)), Some(text)) = (known, text) {
                self.texts.know(space, text, number);
            }
        }
        let kept = |(id, name): (&u32, &String)| {
            let entry: v1::DigestEntry = note(control, &Noted::Digest(name.as_str().into()))?;
            Some((*id, entry.config?))
        };
        let kept: Wanted = self.digests.iter().filter_map(kept).collect();
        if !kept.is_empty() {
            *self.wanted() = kept;
        }
    }
}

impl Writer<'_> {
    /// Keeps newly assigned numbers of texts.
    pub(crate) fn keep_texts(&mut self, new: &[(usize, u64, String)]) -> Result<()> {
        for (space, number, text) in new {
            let name = format!("{TEXT}{number} {}", self.pipeline.uris()[*space]);
            // `=`, because an empty note would be deleted.
            let note = Some(format!("={text}").into_bytes().into_boxed_slice());
            self.make(Update::Note { of: Noted::Own(name.into()), note })?;
        }
        Ok(())
    }
}

/// The highest election ids of roles.
pub(crate) fn highest_ids(control: &Control) -> Vec<(String, u128)> {
    let id = |(name, id): (String, Box<[u8]>)| Some((name, u128::from_be_bytes((*id).try_into().ok()?)));
    own(control, ROLE).into_iter().filter_map(id).collect()
}

/// Keeps the highest election ids of roles. Returns a warning if the state file could not be written.
pub(crate) fn keep_highest_ids(switch: &SharedControl, ids: &[(String, u128)]) -> Result<Option<String>> {
    let control = switch.control();
    let new = ids.iter().filter_map(|(name, id)| {
        let of = Noted::Own(format!("{ROLE}{name}").into());
        let note: Box<[u8]> = Box::new(id.to_be_bytes());
        (control.note(&of).as_ref() != Some(&note)).then_some((of, note))
    });
    let new: Vec<_> = new.collect();
    if new.is_empty() {
        return Ok(None);
    }
    let Some(mut batch) = switch.transaction(&control, new.len()) else { return Ok(None) };
    for (of, note) in new {
        batch.write(Update::Note { of, note: Some(note) })?;
    }
    Ok(batch.commit()?)
}
