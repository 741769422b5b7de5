//! The objects that the references of an update stand for.

use crate::control::Control;
use crate::error::Result;
use crate::made::{Kind, Made};
use crate::update::{Act, Cell, EntryRef};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Action, EntryHandle, TableError};

impl Control {
    /// The handle of an entry.
    pub(crate) fn entry(&self, table: TableId, entry: &EntryRef, made: &Made) -> Result<EntryHandle> {
        match entry {
            EntryRef::Handle(of) => made.handle(*of, Kind::Entry(table), self.program()).map(EntryHandle),
            EntryRef::Key(key) => self.find_entry(table, &key.key, key.priority),
        }
    }

    pub(crate) fn act(&self, table: TableId, act: Act, made: &Made) -> Result<Action> {
        let profile = || {
            // The schema has already checked this.
            let profile = self.program().tables[table.index()].profile;
            profile.ok_or_else(|| self.refused(table)(TableError::NoProfile))
        };
        Ok(match act {
            Act::Action(action) => action,
            Act::Member(member) => {
                Action::member(made.handle(member, Kind::Member(profile()?), self.program())?)
            }
            Act::Group(group) => {
                Action::group(made.handle(group, Kind::Group(profile()?), self.program())?)
            }
        })
    }

    /// The index of a cell as commands count: a direct cell has the handle of its entry.
    pub(crate) fn cell(&self, of: InstanceId, cell: &Cell, made: &Made) -> Result<u32> {
        match (cell, self.schema.direct_table(of)) {
            (Cell::Index(index), _) => Ok(*index),
            (Cell::Entry(entry), Some(table)) => self.entry(table, entry, made).map(|handle| handle.0),
            (Cell::Entry(_), None) => Err(self.schema.not_direct(of)),
        }
    }
}
