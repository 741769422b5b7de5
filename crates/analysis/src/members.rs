//! Finds members by name: fields of structs, members of enums and of `error`, actions of tables. Programs may have
//! thousands of members and refer to them thousands of times.

use crate::typed::{EnumId, StructId, TableId};
use std::collections::HashMap;

/// Something that has members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Struct(StructId),
    Enum(EnumId),
    Errors,
    /// The actions of a table.
    Table(TableId),
}

/// The positions of members in their declarations, by name. New members are added at the next lookup.
#[derive(Debug, Default)]
pub(crate) struct Members {
    known: HashMap<Owner, HashMap<String, usize>>,
    /// Number of members that have been added.
    added: HashMap<Owner, usize>,
}

impl Members {
    /// The position of the first member with that name; `names` are those of all members.
    pub(crate) fn find<'a>(
        &mut self,
        owner: Owner,
        names: impl ExactSizeIterator<Item = &'a String>,
        name: &str,
    ) -> Option<usize> {
        let known = self.known.entry(owner).or_default();
        let added = self.added.entry(owner).or_default();
        let count = names.len();
        for (i, name) in names.enumerate().skip(*added) {
            known.entry(name.clone()).or_insert(i);
        }
        *added = count;
        known.get(name).copied()
    }
}
