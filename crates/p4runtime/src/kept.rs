//! State that the server keeps in the notes of the control, so that it survives reloads, and restarts with a state file: numbers of
//! strings, configurations of digests, highest election ids of roles, the pipeline configuration.

use crate::notes::note;
use crate::pipeline::{Pipeline, Wanted};
use crate::refusal::Result;
use crate::write::Writer;
use bytes::Bytes;
use p4jet_control::{Control, NOTE_BYTES_MAX, Noted, SharedControl, Update};
use p4jet_p4info::proto::v1;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;

/// Prefix of the names of notes about strings; the number of the string and its URI follow. State files have this name.
const STRING: &str = "p4runtime text ";
/// Prefix of the names of notes about roles; the name of the role follows.
const ROLE: &str = "p4runtime role ";
/// Name of the note about the pipeline configuration: the identity of its program, and a ForwardingPipelineConfig in binary form.
const CONFIG: &str = "p4runtime config";

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
    /// Restores the numbers of strings and the wanted digests.
    pub(crate) fn take_kept(&self, control: &Control) {
        let kept = own(control, STRING).into_iter().filter_map(|(name, string)| {
            let (number, uri) = name.split_once(' ')?;
            let space = self.uris().iter().position(|known| known == uri)?;
            let string = std::str::from_utf8(&string).ok()?.strip_prefix('=')?;
            Some((space, number.parse().ok()?, string.to_string()))
        });
        let mut kept: Vec<(usize, u64, String)> = kept.collect();
        // A restored dump may give a string another number than it had before. That of the state counts.
        kept.sort_by_key(|(space, number, _)| !self.strings.is_in_state(*space, *number));
        for (space, number, string) in kept {
            self.strings.know(space, &string, number);
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

impl Pipeline {
    /// Like [`Self::follow_restore`], for packets and events, which show strings and wanted digests at any time. It waits for
    /// changes only after a restore.
    pub(crate) fn follow_restore_of(&self, switch: &SharedControl) {
        if self.restores.load(Ordering::Relaxed) != switch.control().restores() {
            switch.at_one_moment(|control| {
                if self.check_program(control).is_ok() {
                    self.follow_restore(control);
                }
            });
        }
    }

    /// Restores them again if a dump has been restored since. No change may be made meanwhile.
    pub(crate) fn follow_restore(&self, control: &Control) {
        let restores = control.restores();
        if self.restores.swap(restores, Ordering::Relaxed) != restores {
            self.strings.forget();
            self.scan(control);
            self.take_kept(control);
        }
    }
}

impl Writer<'_> {
    /// Keeps newly assigned numbers of strings.
    pub(crate) fn keep_strings(&mut self, new: &[(usize, u64, String)]) -> Result<()> {
        for (space, number, string) in new {
            // `=`, because an empty note would be deleted.
            let note = Some(format!("={string}").into_bytes().into_boxed_slice());
            self.make(Update::Note { of: self.of_string(*space, *number), note })?;
        }
        Ok(())
    }

    /// The note about a number of a string.
    fn of_string(&self, space: usize, number: u64) -> Noted {
        Noted::Own(format!("{STRING}{number} {}", self.pipeline.uris()[space]).into())
    }

    /// Scans the state for the numbers that it has, so that new strings find others.
    pub(crate) fn scan(&mut self) -> Result<()> {
        for (space, number) in self.pipeline.scan(&self.control) {
            self.make(Update::Note { of: self.of_string(space, number), note: None })?;
        }
        Ok(())
    }
}

/// The highest election ids of roles.
pub(crate) fn highest_ids(control: &Control) -> Vec<(String, u128)> {
    let id = |(name, id): (String, Box<[u8]>)| Some((name, u128::from_be_bytes((*id).try_into().ok()?)));
    own(control, ROLE).into_iter().filter_map(id).collect()
}

/// Keeps the highest election ids of roles, if there are any, and no others. Returns a warning if the state file could not be
/// written.
pub(crate) fn keep_highest_ids(switch: &SharedControl, ids: &[(String, u128)]) -> Result<Option<String>> {
    let control = switch.control();
    let new = ids.iter().filter_map(|(name, id)| {
        let of = Noted::Own(format!("{ROLE}{name}").into());
        let note: Box<[u8]> = Box::new(id.to_be_bytes());
        (control.note(&of).as_ref() != Some(&note)).then_some((of, Some(note)))
    });
    let mut new: Vec<_> = new.collect();
    if !ids.is_empty() {
        let known: HashSet<&str> = ids.iter().map(|(name, _)| name.as_str()).collect();
        let forgotten = own(&control, ROLE).into_iter().filter(|(name, _)| !known.contains(name.as_str()));
        new.extend(forgotten.map(|(name, _)| (Noted::Own(format!("{ROLE}{name}").into()), None)));
    }
    if new.is_empty() {
        return Ok(None);
    }
    let Some(mut batch) = switch.transaction(&control, new.len()) else { return Ok(None) };
    for (of, note) in new {
        batch.write(Update::Note { of, note })?;
    }
    Ok(batch.commit()?)
}

/// Identifies a program to the same version of p4jet: a hash of its IR without its name and source places, since a client's program
/// has no file.
fn identity(control: &Control) -> [u8; 8] {
    let text = p4jet_ir::text::print(control.program());
    let mut hasher = DefaultHasher::new();
    for line in text.lines().filter(|line| !line.starts_with("program ") && !line.starts_with("locs ")) {
        line.rsplit_once(" @").map_or(line, |(line, _place)| line).hash(&mut hasher);
    }
    hasher.finish().to_be_bytes()
}

/// The pipeline configuration, if it is that of the running program.
pub(crate) fn config(control: &Control) -> Option<Bytes> {
    let note = control.note(&Noted::Own(CONFIG.into()))?;
    Some(Bytes::copy_from_slice(note.strip_prefix(&identity(control))?))
}

/// True if a pipeline configuration is kept, be it of the running program or of another one.
pub(crate) fn has_config(control: &Control) -> bool {
    control.note(&Noted::Own(CONFIG.into())).is_some()
}

/// Keeps the first of these pipeline configurations that a note can hold; if there is none, later starts have none. Returns a
/// warning if the state file could not be written.
pub(crate) fn keep_config(
    switch: &SharedControl,
    configs: impl IntoIterator<Item = Vec<u8>>,
) -> Result<Option<String>> {
    let control = switch.control();
    let of = Noted::Own(CONFIG.into());
    let identity = identity(&control);
    let mut notes = configs.into_iter().map(|config| [&identity[..], &config].concat());
    let note = notes.find(|note| note.len() <= NOTE_BYTES_MAX).map(Vec::into_boxed_slice);
    if control.note(&of) == note {
        return Ok(None);
    }
    let Some(mut batch) = switch.transaction(&control, 1) else { return Ok(None) };
    batch.write(Update::Note { of, note })?;
    Ok(batch.commit()?)
}
