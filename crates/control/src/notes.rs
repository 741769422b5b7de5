//! Notes of clients about objects: bytes that mean nothing here, such as P4Runtime's metadata.
//!
//! A note is deleted when its object is deleted or gets other contents.
//! A client that changes the contents sets the note again afterwards.

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

    /// Changes the notes.
    pub fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Noted, Note>) -> T) -> T {
        let mut all = self.lock();
        let done = change(&mut all);
        self.count.store(all.len(), Ordering::Relaxed);
        done
    }
}
