//! Reads and sets notes, deletes those that an update makes void, and asks their owner about the updates of other clients.

use crate::control::{Control, NoteOwner};
use crate::error::Result;
use crate::made::Made;
use crate::notes::{Note, Noted, PartChange};
use crate::schema::is_const_entry;
use crate::update::{Ref, Update};
use p4jet_dataplane::Switch;
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::EntryHandle;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The notes that a change deletes.
enum Gone {
    Nothing,
    One(Noted),
    /// Those of the entries of a table that are not const in the program.
    Entries(TableId),
    /// All but [`Noted::Own`].
    All,
}

impl Control {
    /// Names the owner of the notes, once.
    pub fn set_note_owner(&self, owner: &'static dyn NoteOwner) {
        // The first one stays: there is one such client.
        let _ = self.note_owner.set(owner);
    }

    /// Gives the notes the owner of those of `other`.
    pub(crate) fn adopt_note_owner(&self, other: &Control) {
        if let Some(owner) = other.note_owner.get() {
            self.set_note_owner(*owner);
        }
    }

    /// Control of the switch that replaced this one, with the notes about objects that it also has.
    pub(crate) fn succeed(&self, switch: Arc<Switch>) -> Control {
        let new = Control::new(switch);
        new.adopt_note_owner(self);
        new.notes.changes_of_others.store(self.changes_of_others() + 1, Ordering::Relaxed);
        new.notes.restores.store(self.restores(), Ordering::Relaxed);
        let mut places: HashMap<TableId, Vec<Option<u32>>> = HashMap::new();
        for (of, note) in self.notes() {
            let found = new.schema.find_noted(&self.schema.named_noted(&of));
            // The handle of an entry of the program is its place there.
            let found = match (&of, found) {
                (Noted::Entry(old, handle), Some(Noted::Entry(table, _))) => {
                    let declared = &self.program().tables[old.index()];
                    let places = places
                        .entry(*old)
                        .or_insert_with(|| new.program().tables[table.index()].entries_like(declared));
                    let handle = places.get(*handle as usize).copied().unwrap_or(Some(*handle));
                    handle.map(|handle| Noted::Entry(table, handle))
                }
                (_, found) => found,
            };
            if let Some(of) = found
                && new.is_there(&of)
            {
                new.set_note(of, Some(note));
            }
        }
        new
    }

    /// Refuses an update that only the owner of the notes may make.
    pub(crate) fn check_owned(&self, update: &Update) -> Result<()> {
        self.count_change_of_others();
        match self.note_owner.get() {
            Some(owner) if !self.notes.is_empty() => owner.check(self, update),
            _ => Ok(()),
        }
    }

    /// The number of changes that others than the owner of the notes have tried to make to this switch.
    pub fn changes_of_others(&self) -> u64 {
        self.notes.changes_of_others.load(Ordering::Relaxed)
    }

    pub(crate) fn count_change_of_others(&self) {
        self.notes.changes_of_others.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of dumps that were restored. Each replaces notes whose owner may know their former contents.
    pub fn restores(&self) -> u64 {
        self.notes.restores.load(Ordering::Relaxed)
    }

    /// The update of a note that follows an update by another client than its owner, if only a part of the object changes.
    pub(crate) fn note_after(&self, update: &Update, made: &Made) -> Option<Update> {
        let owner = self.note_owner.get().filter(|_| !self.notes.is_empty())?;
        let group = |profile: &InstanceId, group: &Ref| Some(Noted::Group(*profile, made.resolved(*group)?));
        let (of, part) = match update {
            Update::AddToGroup { profile, group: of, member } => {
                (group(profile, of)?, PartChange::Added(made.resolved(*member)?))
            }
            Update::RemoveFromGroup { profile, group: of, member } => {
                (group(profile, of)?, PartChange::Removed(made.resolved(*member)?))
            }
            Update::SetTimeout { table, entry, .. } => {
                (Noted::Entry(*table, self.entry(*table, entry, made).ok()?.0), PartChange::Timeout)
            }
            _ => return None,
        };
        let note = owner.after(&of, &self.note(&of)?, part);
        Some(Update::Note { of, note })
    }

    /// What the note about an object says, in lines; nothing if there is no note.
    pub fn describe_note(&self, of: &Noted) -> String {
        match self.note_owner.get() {
            Some(owner) if !self.notes.is_empty() => owner.describe(self, of),
            _ => String::new(),
        }
    }

    /// The note about an object.
    pub fn note(&self, of: &Noted) -> Option<Note> {
        if self.notes.is_empty() { None } else { self.notes.with(|all| all.get(of).cloned()) }
    }

    /// All notes, in the order of their objects.
    pub fn notes(&self) -> Vec<(Noted, Note)> {
        self.notes.with(|all| all.iter().map(|(of, note)| (of.clone(), note.clone())).collect())
    }

    /// The objects of a range that have notes, in their order.
    pub fn noted(&self, range: std::ops::RangeInclusive<Noted>) -> Vec<Noted> {
        if self.notes.is_empty() {
            return Vec::new();
        }
        self.notes.with(|all| all.range(range).map(|(of, _)| of.clone()).collect())
    }

    pub(crate) fn set_note(&self, of: Noted, note: Option<Note>) -> Option<Note> {
        self.notes.change(|all| match note {
            Some(note) => all.insert(of, note),
            None => all.remove(&of),
        })
    }

    /// True if an object is there.
    pub(crate) fn is_there(&self, of: &Noted) -> bool {
        match of {
            Noted::Entry(table, handle) => self.switch.table(*table).get(EntryHandle(*handle)).is_some(),
            Noted::Group(profile, group) => self
                .schema
                .profile_table(*profile)
                .and_then(|table| self.profile(table))
                .is_ok_and(|of| of.group(*group).is_some()),
            Noted::MulticastGroup(group) => {
                self.switch.state().with_multicast(|multicast| multicast.groups().contains_key(group))
            }
            Noted::Session(session) => self.switch.state().destinations().sessions.get(*session).is_some(),
            Noted::Default(_) | Noted::Digest(_) | Noted::Own(_) => true,
        }
    }

    /// Removes the notes that a change is about to make void.
    pub(crate) fn take_notes(&self, update: &Update, made: &Made) -> Vec<(Noted, Note)> {
        if self.notes.is_empty() {
            return Vec::new();
        }
        let gone = self.gone_with(update, made);
        self.notes.change(|all| match gone {
            Gone::Nothing => Vec::new(),
            Gone::One(of) => all.remove_entry(&of).into_iter().collect(),
            Gone::All => {
                let (own, gone) = std::mem::take(all)
                    .into_iter()
                    .partition::<BTreeMap<_, _>, _>(|(of, _)| matches!(of, Noted::Own(_)));
                *all = own;
                gone.into_iter().collect()
            }
            Gone::Entries(id) => {
                let declared = &self.program().tables[id.index()];
                let of_table = Noted::Entry(id, 0)..=Noted::Entry(id, u32::MAX);
                let keys: Vec<Noted> = all.range(of_table).map(|(of, _)| of.clone()).collect();
                let goes = |of: &Noted| match of {
                    Noted::Entry(_, handle) => !is_const_entry(declared, *handle),
                    _ => false,
                };
                keys.into_iter().filter(goes).filter_map(|of| all.remove_entry(&of)).collect()
            }
        })
    }

    fn gone_with(&self, update: &Update, made: &Made) -> Gone {
        let group = |profile: &InstanceId, group: &Ref| match made.resolved(*group) {
            Some(handle) => Gone::One(Noted::Group(*profile, handle)),
            None => Gone::Nothing,
        };
        let node = |node: &Ref| {
            let handle = made.resolved(*node);
            let of = handle.and_then(|handle| {
                self.switch.state().with_multicast(|m| Some(m.nodes().get(&handle)?.place()?.group))
            });
            of.map_or(Gone::Nothing, |group| Gone::One(Noted::MulticastGroup(group)))
        };
        match update {
            Update::Delete { table, entry } => match self.entry(*table, entry, made) {
                Ok(handle) => Gone::One(Noted::Entry(*table, handle.0)),
                Err(_) => Gone::Nothing,
            },
            Update::Clear(table) => Gone::Entries(*table),
            Update::SetDefault { table, .. } | Update::ResetDefault(table) => {
                Gone::One(Noted::Default(*table))
            }
            Update::DeleteGroup { profile, group: of }
            | Update::AddToGroup { profile, group: of, .. }
            | Update::RemoveFromGroup { profile, group: of, .. }
            | Update::SetGroup { profile, group: of, .. } => group(profile, of),
            Update::DestroyMulticastGroup(group)
            | Update::Associate { group, .. }
            | Update::Dissociate { group, .. }
            | Update::SetMulticastGroup { group, .. } => Gone::One(Noted::MulticastGroup(*group)),
            Update::UpdateNode { node: of, .. } | Update::DestroyNode(of) => node(of),
            Update::SetSession { session, .. }
            | Update::SetReplicas { session, .. }
            | Update::DeleteSession(session) => Gone::One(Noted::Session(*session)),
            Update::Reset => Gone::All,
            _ => Gone::Nothing,
        }
    }

    /// Puts notes back.
    pub(crate) fn put_notes(&self, notes: Vec<(Noted, Note)>) {
        for (of, note) in notes {
            self.set_note(of, Some(note));
        }
    }
}
