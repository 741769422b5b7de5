//! The objects that the updates of a batch create, and references to them.

use crate::error::{ControlError, Result};
use crate::update::{Ref, Update};
use p4jet_ir::{InstanceId, Program, TableId};

/// The kind of object to which a handle belongs: handles of different kinds are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Entry(TableId),
    Member(InstanceId),
    Group(InstanceId),
    Node,
}

impl Kind {
    /// The kind of object that an update creates, if any.
    pub(crate) fn made_by(update: &Update) -> Option<Kind> {
        match update {
            Update::Insert { table, .. } => Some(Kind::Entry(*table)),
            Update::CreateMember { profile, .. } => Some(Kind::Member(*profile)),
            Update::CreateGroup { profile } => Some(Kind::Group(*profile)),
            Update::CreateNode { .. } => Some(Kind::Node),
            _ => None,
        }
    }

    /// The table or action profile to which the objects belong.
    fn owner(self, program: &Program) -> Option<&str> {
        match self {
            Kind::Entry(table) => Some(&program.tables[table.index()].name),
            Kind::Member(profile) | Kind::Group(profile) => Some(&program.instances[profile.index()].name),
            Kind::Node => None,
        }
    }

    fn describe(self, program: &Program) -> String {
        let owner = self.owner(program).unwrap_or_default();
        match self {
            Kind::Entry(_) => format!("an entry of `{owner}`"),
            Kind::Member(_) => format!("a member of `{owner}`"),
            Kind::Group(_) => format!("a group of `{owner}`"),
            Kind::Node => "a multicast node".to_string(),
        }
    }
}

/// The objects that the updates of a batch have created so far.
#[derive(Default)]
pub(crate) struct Made {
    handles: Vec<Option<u32>>,
    kinds: Vec<Option<Kind>>,
}

impl Made {
    pub(crate) fn push(&mut self, kind: Option<Kind>, handle: Option<u32>) {
        self.handles.push(handle);
        self.kinds.push(kind);
    }

    /// The handle to which a reference resolves.
    pub(crate) fn resolved(&self, of: Ref) -> Option<u32> {
        match of {
            Ref::Handle(handle) => Some(handle),
            Ref::Made(place) => self.get(place).map(|(_, handle)| handle),
        }
    }

    /// The handle to which a reference resolves; the object must be of this kind.
    pub(crate) fn handle(&self, of: Ref, kind: Kind, program: &Program) -> Result<u32> {
        let place = match of {
            Ref::Handle(handle) => return Ok(handle),
            Ref::Made(place) => place,
        };
        let own = self.handles.len();
        let wrong = |why: String| {
            let error = ControlError::new(why).field("handle");
            Err(match kind.owner(program) {
                Some(owner) => error.entity(owner),
                None => error,
            })
        };
        if place as usize >= own {
            let found = match place as usize == own {
                true => "itself".to_string(),
                false => format!("update {place}, which is not an earlier one"),
            };
            let expected = match own {
                0 => "a handle, because no update comes before it".to_string(),
                _ => format!("a handle or an earlier update, 0 to {}", own - 1),
            };
            return wrong(format!("update {own} of the batch refers to {found}: expected {expected}"));
        }
        match self.get(place) {
            Some((found, handle)) if found == kind => Ok(handle),
            found => {
                let found = found.map_or("nothing".to_string(), |(found, _)| found.describe(program));
                let expected = kind.describe(program);
                wrong(format!(
                    "update {own} of the batch refers to update {place}, which made {found}, expected {expected}"
                ))
            }
        }
    }

    fn get(&self, place: u32) -> Option<(Kind, u32)> {
        let place = place as usize;
        Some(((*self.kinds.get(place)?)?, (*self.handles.get(place)?)?))
    }

    /// The handles, by the position of the update.
    pub(crate) fn handles(&self) -> &[Option<u32>] {
        &self.handles
    }
}
