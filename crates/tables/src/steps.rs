//! Orders changes so that a lookup sees one state.
//!
//! A lookup reads several things in sequence: the entry; in IPv4 tables, a route of /8 or shorter if no longer one
//! matches; on a miss, the default action; the members of a group; the action of a member. Each of these reads sees one
//! state, but a later read could see a newer state. So before the writer changes something that lookups read late, it
//! waits for the readers that may have read something else before its change. It waits only if something that lookups
//! read first has changed since it last waited. If the readers have not passed after a second, the whole change fails.
//! So no lookup meets a change of what it has read followed by a change of what it reads next: everything it reads
//! existed at one moment, before the first change of what it has already read.

use crate::TableError;
use crate::grace::readers_pass;

/// The part of a table that changes.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Entries, except the kinds below.
    Entry,
    /// The row of a rule: readers of an older decision tree see it too.
    RowOfRule,
    /// A route of an IPv4 table that is looked up after the longer ones.
    ShortRoute,
    Default,
    Group,
    Member,
}

const ENTRY: u8 = 1;
const SHORT_ROUTE: u8 = 2;
const DEFAULT: u8 = 4;
const GROUP: u8 = 8;
const MEMBER: u8 = 16;
const TREE: u8 = 32;

/// Kinds of changes made since all readers last passed.
#[derive(Default)]
pub(crate) struct Steps(u8);

impl Steps {
    /// Must be called before a change. An error means that readers do not pass; then the change must not happen.
    pub fn begin(&mut self, step: Step) -> Result<(), TableError> {
        let (is, before) = match step {
            // Generated code reads the default action once for several packets, so it may be read before the entry.
            Step::Entry => (ENTRY, DEFAULT),
            Step::RowOfRule => (ENTRY, DEFAULT | TREE),
            Step::ShortRoute => (SHORT_ROUTE, DEFAULT | ENTRY),
            Step::Default => (DEFAULT, ENTRY | SHORT_ROUTE),
            Step::Group => (GROUP, ENTRY | SHORT_ROUTE | DEFAULT),
            Step::Member => (MEMBER, ENTRY | SHORT_ROUTE | DEFAULT | GROUP),
        };
        if self.0 & before != 0 {
            readers_pass()?;
            self.0 = 0;
        }
        self.0 |= is;
        Ok(())
    }

    /// Must be called when new readers search another decision tree.
    pub fn new_tree(&mut self) {
        self.0 |= TREE;
    }

    /// Must be called when entries have changed at once, by a new view.
    pub fn new_entries(&mut self) {
        self.0 |= ENTRY;
    }
}
