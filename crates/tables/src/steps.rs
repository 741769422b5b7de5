//! In which order changes may follow each other, so that a lookup sees one state.
//!
//! A lookup reads one thing after the other: the entry, in IPv4 tables a short route if no longer one matches, on a miss the
//! default action, of a group its members, of a member its action. Each of them is of one state, but what is read later could
//! be newer. So before something changes that lookups read late, the readers pass that may have read something else before it
//! changed. Then no lookup meets a change of what it has read and, after that, a change of what it reads next: all that it
//! reads was there at one moment, before the first change of what it has read already.

use crate::TableError;
use crate::grace::readers_pass;

/// What changes.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    /// Entries, but for those of the next two.
    Entry,
    /// The row of a rule: readers of an older decision tree see it, too.
    RowOfRule,
    /// A route of an IPv4 table that is looked for after the longer ones.
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

/// What has changed since all readers passed.
#[derive(Default)]
pub(crate) struct Steps(u8);

impl Steps {
    /// To be called before a change. An error says that readers do not pass; then there is to be no change.
    pub fn begin(&mut self, step: Step) -> Result<(), TableError> {
        let (is, before) = match step {
            // Generated code reads what the default is once for several packets, so it may be read before, too.
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

    /// To be called when new readers search another decision tree.
    pub fn new_tree(&mut self) {
        self.0 |= TREE;
    }

    /// To be called when entries have changed at once, by another view.
    pub fn new_entries(&mut self) {
        self.0 |= ENTRY;
    }
}
