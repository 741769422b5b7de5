//! Notes of clients about objects: bytes that mean nothing here, such as P4Runtime's metadata.
//!
//! A note is deleted when its object is deleted or gets other contents. A client that changes the contents sets the note again
//! afterwards; if another client changes only a part, the owner of the notes says what the note becomes
//! ([`NoteOwner::after`](crate::NoteOwner::after)).

use p4jet_ir::{InstanceId, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An object that can have a note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// An entry, by its handle.
    Entry(TableId, u32),
    /// What a table does with packets that match no entry.
    Default(TableId),
    /// A group of an action selector, by its handle.
    Group(InstanceId, u32),
    /// A multicast group.
    MulticastGroup(u32),
    /// A clone session.
    Session(u32),
    /// A digest, by its name. It is always there.
    Digest(Box<str>),
    /// Something of the client's own, by its name. It is always there.
    Own(Box<str>),
}

/// Where the places of objects without a number begin: each has its position among them.
const NAMED: u64 = 5 << 61;

impl Noted {
    /// The place of the object in the order of all, if it has a number.
    fn place(&self) -> Option<u64> {
        // A program has fewer than 2^29 tables and instances.
        let place = |kind: u64, of: u32, number: u32| kind << 61 | u64::from(of) << 32 | u64::from(number);
        match *self {
            Noted::Entry(table, handle) => Some(place(0, table.0, handle)),
            Noted::Default(table) => Some(place(1, table.0, 0)),
            Noted::Group(profile, group) => Some(place(2, profile.0, group)),
            Noted::MulticastGroup(group) => Some(place(3, 0, group)),
            Noted::Session(session) => Some(place(4, 0, session)),
            Noted::Digest(_) | Noted::Own(_) => None,
        }
    }

    /// The object at a place; the first one without a number from [`NAMED`] on.
    fn at(place: u64) -> Noted {
        let (of, number) = ((place >> 32) as u32 & 0x1fff_ffff, place as u32);
        match place >> 61 {
            0 => Noted::Entry(TableId(of), number),
            1 => Noted::Default(TableId(of)),
            2 => Noted::Group(InstanceId(of), number),
            3 => Noted::MulticastGroup(number),
            4 => Noted::Session(number),
            _ => Noted::Digest(Box::default()),
        }
    }
}

/// A note.
pub type Note = Box<[u8]>;

/// The longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 1 << 20;

/// A change of a part of an object, whose note keeps the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartChange {
    /// A group has got this member.
    Added(u32),
    /// A group has lost this member.
    Removed(u32),
    /// An entry has got another timeout.
    Timeout,
}

/// The notes about the objects of one switch.
#[derive(Default)]
pub(crate) struct Notes {
    all: Mutex<BTreeMap<Noted, Note>>,
    /// Their number, so that switches without notes pay nothing.
    count: AtomicUsize,
    /// See [`Control::changes_of_others`](crate::Control::changes_of_others).
    pub(crate) changes_of_others: AtomicU64,
    /// See [`Control::restores`](crate::Control::restores).
    pub(crate) restores: AtomicU64,
}

impl Notes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Noted, Note>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Looks at the notes.
    pub fn with<T>(&self, look: impl FnOnce(&BTreeMap<Noted, Note>) -> T) -> T {
        look(&self.lock())
    }

    /// Up to `max` notes from a place on, and the place of the next one. Long notes come in shorter lists.
    pub fn page(&self, from: u64, max: usize) -> (Vec<(Noted, Note)>, Option<u64>) {
        let mut before = from.saturating_sub(NAMED);
        let (mut found, mut bytes) = (Vec::new(), 0);
        self.with(|all| {
            for (of, note) in all.range(Noted::at(from)..).skip(before as usize) {
                if found.len() == max || bytes >= NOTE_BYTES_MAX {
                    return (found, Some(of.place().unwrap_or(NAMED + before)));
                }
                before += u64::from(of.place().is_none());
                bytes += note.len();
                found.push((of.clone(), note.clone()));
            }
            (found, None)
        })
    }

    /// Changes the notes.
    pub fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Noted, Note>) -> T) -> T {
        let mut all = self.lock();
        let done = change(&mut all);
        self.count.store(all.len(), Ordering::Relaxed);
        done
    }
}
