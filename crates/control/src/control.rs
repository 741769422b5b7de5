//! Control of a switch, and access to its objects.

use crate::error::{BUSY, ControlError, NO_MEMORY, Result, Subject};
use crate::fields::param_names;
use crate::notes::{Note, Noted, Notes, PartChange};
use crate::schema::{Schema, tables};
use crate::update::Update;
use p4jet_dataplane::Switch;
use p4jet_externs::CrcParams;
use p4jet_ir::{InstanceId, Program, TableAction, TableId};
use p4jet_tables::{ActionProfile, EntryHandle, KeyMatch, TableError};
use std::sync::{Arc, OnceLock};

/// Control of a switch: changes it by [`Update`]s and reads its objects.
#[derive(Clone)]
pub struct Control {
    pub(crate) switch: Arc<Switch>,
    pub(crate) schema: Arc<Schema>,
    pub(crate) notes: Arc<Notes>,
    pub(crate) note_owner: Arc<OnceLock<&'static dyn NoteOwner>>,
}

/// The client that wrote the notes. It knows what they mean.
pub trait NoteOwner: Sync {
    /// Refuses an update of another client to an object that only the owner may change.
    ///
    /// # Errors
    ///
    /// The update concerns such an object.
    fn check(&self, control: &Control, update: &Update) -> Result<()>;

    /// The note of an object after another client has changed a part of it.
    fn after(&self, of: &Noted, note: &[u8], part: PartChange) -> Option<Note>;

    /// Describes for people what a note adds to the contents of an object: lines, or nothing.
    fn describe(&self, control: &Control, of: &Noted) -> String;
}

impl Control {
    /// Control of a switch.
    pub fn new(switch: Arc<Switch>) -> Control {
        let schema = Arc::new(Schema::new(switch.program()));
        Control { switch, schema, notes: Arc::default(), note_owner: Arc::default() }
    }

    /// The switch.
    pub fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// The names and ids of the program's objects.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The program of the switch.
    pub fn program(&self) -> &Program {
        self.switch.program()
    }

    /// Refuses an update that the program does not allow.
    pub(crate) fn check(&self, update: &Update) -> Result<()> {
        self.schema.check(self.program(), update)
    }

    /// The handle of the entry that has this key and priority.
    ///
    /// # Errors
    ///
    /// No entry has this key and priority: the code is `BAD_MATCH_KEY`.
    pub fn find_entry(&self, id: TableId, key: &[KeyMatch], priority: u32) -> Result<EntryHandle> {
        self.schema.known_table(id)?;
        let found = self.switch.table(id).find(key, priority);
        // bmv2's code if no entry has the key.
        found.ok_or_else(|| {
            let name = &self.program().tables[id.index()].name;
            ControlError::refused(Subject::Table, "BAD_MATCH_KEY", "no entry has this key")
                .entity(name)
                .field("key")
        })
    }

    /// The action profile of a table.
    ///
    /// # Errors
    ///
    /// The table has no action profile.
    pub fn profile(&self, table: TableId) -> Result<ActionProfile> {
        self.schema.known_table(table)?;
        let profile = self.switch.table(table).profile().cloned();
        profile.ok_or_else(|| self.refused(table)(TableError::NoProfile))
    }

    /// An action profile, and a function that converts its refusals to errors that name it.
    pub(crate) fn profile_of(
        &self,
        profile: InstanceId,
    ) -> Result<(ActionProfile, impl Fn(TableError) -> ControlError + '_)> {
        let table = self.schema.profile_table(profile)?;
        let name = self.schema.instance_name(profile);
        let refused = self.refused(table);
        let refused = move |error| ControlError { entity: Some(name.into()), ..refused(error) };
        Ok((self.profile(table)?, refused))
    }

    /// Refuses this many more members of an action profile if it has no room for them.
    ///
    /// # Errors
    ///
    /// The program has no such action profile, or the profile has no room: the code is `LIMIT`.
    pub fn check_room(&self, profile: InstanceId, more: usize) -> Result<()> {
        let (of, _) = self.profile_of(profile)?;
        let used = of.members_count();
        match self.schema.profile_size(profile) {
            Some(size) if used.saturating_add(more) > size as usize => {
                let name = self.schema.instance_name(profile);
                let room = (size as usize).saturating_sub(used);
                let why = format!(
                    "found {more} more members for `{name}`, expected at most {room}: {used} of its {size} exist"
                );
                Err(ControlError::limit(why).entity(name))
            }
            _ => Ok(()),
        }
    }

    /// The number of entries of a table, or of values of a value set.
    ///
    /// # Errors
    ///
    /// The program has no such table.
    pub fn entries_of(&self, table: TableId) -> Result<usize> {
        self.schema.known_table(table)?;
        Ok(self.switch.table(table).len())
    }

    /// The number of entries of all tables.
    pub fn entries(&self) -> usize {
        tables(self.program()).map(|(id, _)| self.switch.table(id).len()).sum()
    }

    /// Microseconds since the switch started.
    pub fn now_us(&self) -> u64 {
        self.switch.now_us()
    }

    /// The constants of a custom CRC before it is set.
    pub(crate) fn usual_crc(&self, crc: u32) -> CrcParams {
        if self.schema.crc_width(crc) == Some(16) { CrcParams::CRC16 } else { CrcParams::CRC32 }
    }

    /// Called after many changes.
    pub(crate) fn publish(&self) {
        tables(self.program()).for_each(|(id, _)| self.switch.table(id).publish());
    }

    /// Converts the refusal of a table to an error that names it.
    pub fn refused(&self, id: TableId) -> impl Fn(TableError) -> ControlError + '_ {
        move |error| refused(self.program(), id, &error)
    }
}

/// The error of an operation of a table or value set, with the field that is wrong.
fn refused(program: &Program, id: TableId, error: &TableError) -> ControlError {
    let table = &program.tables[id.index()];
    let (subject, why) = match error {
        TableError::Full { size } if table.hidden => {
            (Subject::ValueSet, format!("the value set is full: its size is {size}"))
        }
        error if table.hidden => (Subject::ValueSet, error.to_string()),
        error => (Subject::Table, error.to_string()),
    };
    let refused = ControlError::refused(subject, error.code(), why).entity(&table.name);
    let key = |field: usize| format!("key {}", table.keys.get(field).map_or("", |key| key.name.as_str()));
    match error {
        TableError::KeyKind { field, .. }
        | TableError::KeyWidth { field, .. }
        | TableError::PrefixLength { field, .. }
        | TableError::EmptyRange { field } => refused.field(key(*field)),
        TableError::NoKey | TableError::KeyCount { .. } | TableError::Duplicate { .. } => {
            refused.field("key")
        }
        TableError::InvalidHandle(_) | TableError::ExpiredHandle { .. } => refused.field("handle"),
        TableError::UnknownAction { .. } => {
            let name = |listed: &TableAction| program.actions[listed.action.index()].control_name.as_str();
            refused.field("action").choices(table.actions.iter().map(name))
        }
        TableError::NoProfile | TableError::DataCount { .. } => refused.field("action"),
        TableError::DataWidth { action, param, .. } => {
            let listed = table.actions.get(*action as usize);
            let names = listed.map(|listed| param_names(program, listed.action));
            let name = names.and_then(|names| names.get(*param).copied()).unwrap_or("");
            refused.field(format!("parameter {name}"))
        }
        TableError::InvalidMember(_)
        | TableError::MemberUsed(_)
        | TableError::MemberInGroup { .. }
        | TableError::MemberNotInGroup { .. } => refused.field("member"),
        TableError::NoGroups
        | TableError::InvalidGroup(_)
        | TableError::GroupUsed(_)
        | TableError::EmptyGroup(_) => refused.field("group"),
        TableError::Busy => refused.code(BUSY),
        TableError::NoMemory(_) => refused.code(NO_MEMORY),
        TableError::Full { .. } | TableError::ProfileFull { .. } => refused,
    }
}
