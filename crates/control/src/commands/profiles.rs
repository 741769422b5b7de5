//! Action profiles: members, groups, and the entries that name them.

use super::apply::{Done, Result, Undo, UndoOther, refused};
use super::parse::{
    Command, Line, LineParser, Named, Parsed, Token, check_entries_open, key_and_rest, number,
};
use super::{Control, Reply, data, show};
use crate::error::CommandError;
use crate::names::unknown;
use p4jet_ir::{Instance, InstanceId, InstanceKind, TableId};
use p4jet_tables::{Action, ActionProfile, Entry, TableError};

/// What a command does with an action profile, whose members are what a table lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProfileCommand {
    pub table: TableId,
    pub act: ProfileAct,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProfileAct {
    CreateMember(Action),
    ModifyMember(u32, Action),
    DeleteMember(u32),
    CreateGroup,
    DeleteGroup(u32),
    AddToGroup { member: u32, group: u32 },
    RemoveFromGroup { member: u32, group: u32 },
    DumpMember(u32),
    DumpGroup(u32),
    Dump,
}

impl ProfileCommand {
    pub(super) fn reads(&self) -> bool {
        matches!(self.act, ProfileAct::DumpMember(_) | ProfileAct::DumpGroup(_) | ProfileAct::Dump)
    }
}

/// How to take a change of a profile back.
pub(super) enum UndoProfile {
    Uncreate(u32),
    Modify(u32, Action),
    Recreate(u32, Action),
    UncreateGroup(u32),
    RecreateGroup(u32, Vec<u32>),
    Add(u32, u32),
    Remove(u32, u32),
}

/// The command that does what an older spelling, with a table's name, did.
pub(super) fn substitute(name: &str) -> Option<&'static str> {
    Some(match name {
        "table_indirect_create_member" => "act_prof_create_member",
        "table_indirect_delete_member" => "act_prof_delete_member",
        "table_indirect_modify_member" => "act_prof_modify_member",
        "table_indirect_create_group" => "act_prof_create_group",
        "table_indirect_delete_group" => "act_prof_delete_group",
        "table_indirect_add_member_to_group" => "act_prof_add_member_to_group",
        "table_indirect_remove_member_from_group" => "act_prof_remove_member_from_group",
        _ => return None,
    })
}

fn handle(token: Token<'_>, what: &str) -> Parsed<u32> {
    // The check makes the cast exact.
    number(token, what, u64::from(u32::MAX)).map(|handle| handle as u32)
}

impl<'a> LineParser<'_, 'a> {
    /// A command about an action profile, which the first argument names; in the older spellings a table does.
    pub(super) fn profile_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let name = line.spec.name;
        let older = substitute(name);
        let by_table = older.is_some() || matches!(name, "table_dump_member" | "table_dump_group");
        let table = if by_table { self.indirect_table(line)?.id } else { self.table_of_profile(line)? };
        let profile = self.program.tables[table.index()].profile;
        let users = self.program.tables.iter().filter(|t| t.profile == profile).count();
        if let Some(newer) = older.filter(|_| users > 1) {
            let message = format!(
                "Error: Legacy command does not work with shared action profiles: expected {newer} {}",
                self.profile_of(table).name
            );
            return Err(CommandError::new(message).at(line.tokens[1].span()));
        }
        let member = |at| handle(line.get(at, "a member handle")?, "a member handle");
        let group = |at| handle(line.get(at, "a group handle")?, "a group handle");
        let (act, end) = match older.unwrap_or(name) {
            "act_prof_create_member" => {
                let action = self.member_action(line, table)?;
                let data = self.action_data(line, table, action, 3..line.tokens.len())?;
                (ProfileAct::CreateMember(data), line.tokens.len())
            }
            "act_prof_modify_member" => {
                let action = self.member_action(line, table)?;
                let member = member(3)?;
                let data = self.action_data(line, table, action, super::parse::params_after(line, 4))?;
                (ProfileAct::ModifyMember(member, data), line.tokens.len())
            }
            "act_prof_delete_member" => (ProfileAct::DeleteMember(member(2)?), 3),
            "act_prof_dump_member" | "table_dump_member" => (ProfileAct::DumpMember(member(2)?), 3),
            "act_prof_dump_group" | "table_dump_group" => (ProfileAct::DumpGroup(group(2)?), 3),
            "act_prof_dump" => (ProfileAct::Dump, 2),
            of_selector => {
                self.check_selector(line, table)?;
                match of_selector {
                    "act_prof_create_group" => (ProfileAct::CreateGroup, 2),
                    "act_prof_delete_group" => (ProfileAct::DeleteGroup(group(2)?), 3),
                    "act_prof_add_member_to_group" => {
                        (ProfileAct::AddToGroup { member: member(2)?, group: group(3)? }, 4)
                    }
                    "act_prof_remove_member_from_group" => {
                        (ProfileAct::RemoveFromGroup { member: member(2)?, group: group(3)? }, 4)
                    }
                    other => unreachable!("command {other} is listed but not parsed"),
                }
            }
        };
        line.ends_after(end)?;
        Ok(Command::Profile(ProfileCommand { table, act }))
    }

    /// A table that has the action profile which the first argument names.
    fn table_of_profile(&self, line: &Line<'_, 'a>) -> Parsed<TableId> {
        let token = line.get(1, "an action profile name")?;
        let profile = super::parse::named(&self.names.profiles, token, InstanceId)?;
        let table = self.program.tables.iter().position(|t| t.profile == Some(profile.id));
        table.map(|table| TableId(table as u32)).ok_or_else(|| {
            let message = format!("Error: no table has the action profile `{}`", token.text);
            CommandError::new(message).at(token.span())
        })
    }

    /// The table that the first argument names, which has an action profile.
    pub(super) fn indirect_table(&self, line: &Line<'_, 'a>) -> Parsed<Named<'a, TableId>> {
        let table = self.table(line)?;
        if self.program.tables[table.id.index()].profile.is_none() {
            let message = format!(
                "Error: Cannot run this command on non-indirect table: `{}` has no action profile",
                table.typed
            );
            return Err(CommandError::new(message).at(line.tokens[1].span()));
        }
        Ok(table)
    }

    /// The action of a member, as an index in the list of a table that has the profile.
    fn member_action(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<Named<'a, u32>> {
        let token = line.get(2, "an action name")?;
        let actions = &self.names.shapes[table.index()].actions;
        self.action(line, table).map_err(|_| {
            let choices = unknown(token.text, actions.names(), "its actions are");
            let message = format!(
                "Error: Action profile '{}' has no action '{}': {choices}",
                self.profile_of(table).name,
                token.text
            );
            CommandError::new(message).at(token.span())
        })
    }

    fn profile_of(&self, table: TableId) -> &Instance {
        let profile = self.program.tables[table.index()].profile.expect("the caller chose a table with one");
        &self.program.instances[profile.index()]
    }

    /// Refuses profiles without groups.
    fn check_selector(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<()> {
        let instance = self.profile_of(table);
        if matches!(instance.kind, InstanceKind::ActionProfile { selector: true, .. }) {
            return Ok(());
        }
        let message = format!(
            "Error: Cannot run this command on an action profile without selector: `{}` has no groups",
            instance.name
        );
        Err(CommandError::new(message).at(line.tokens[1].span()))
    }

    /// The commands about entries and the default of a table with an action profile.
    pub(super) fn indirect_command(&self, line: &Line<'_, 'a>) -> Parsed<Command<'a>> {
        let table = self.indirect_table(line)?;
        let ir = &self.program.tables[table.id.index()];
        let of_group = line.spec.name.ends_with("_with_group");
        if of_group {
            self.check_selector(line, table.id)?;
        }
        let named = |token: Token<'_>| {
            Ok(match of_group {
                true => Action::group(handle(token, "a group handle")?),
                false => Action::member(handle(token, "a member handle")?),
            })
        };
        let what = if of_group { "a group handle" } else { "a member handle" };
        match line.spec.name {
            "table_indirect_set_default" | "table_indirect_set_default_with_group" => {
                let call = named(line.get(2, what)?)?;
                line.ends_after(3)?;
                if ir.const_default {
                    let why = format!("`{}` has a const default_action", ir.name);
                    return Err(CommandError::refused("table", "DEFAULT_ENTRY_IS_CONST", why));
                }
                Ok(Command::IndirectSetDefault(table.id, call))
            }
            _ => {
                let needs_priority = self.names.shapes[table.id.index()].needs_priority;
                let of = format!("{} on table {}", line.spec.name, table.typed);
                let takes = match needs_priority {
                    true => format!(", {what} and a priority"),
                    false => format!(" and {what}"),
                };
                let words = (ir.keys.len(), 1 + usize::from(needs_priority));
                let (key, rest) = key_and_rest(line, 2, words, &of, &takes)?;
                check_entries_open(ir)?;
                let key = self.match_key(line, table.id, key.clone(), key.end)?;
                let action = named(line.get(rest.start, what)?)?;
                let priority = if needs_priority {
                    let token = line.tokens.get(rest.start + 1).copied();
                    let token = token.ok_or_else(|| self.priority_missing(line, table.id))?;
                    line.ends_after(rest.start + 2)?;
                    self.priority(token, table.id)?
                } else {
                    line.ends_after(rest.start + 1)?;
                    0
                };
                Ok(Command::IndirectAdd { table: table.id, entry: Entry { key, priority, action } })
            }
        }
    }
}

impl Control {
    pub(super) fn profile(&self, table: TableId) -> Result<ActionProfile> {
        self.switch.table(table).profile().cloned().ok_or_else(|| refused(TableError::NoProfile))
    }

    /// About members and groups.
    pub(super) fn profile_reply(&self, command: &ProfileCommand, data: bool) -> Result<Reply> {
        let profile = self.profile(command.table)?;
        let (program, table) = (self.program(), &self.program().tables[command.table.index()]);
        Ok(match command.act {
            ProfileAct::DumpMember(handle) => {
                let action =
                    profile.member(handle).ok_or_else(|| refused(TableError::InvalidMember(handle)))?;
                Reply::new(
                    show::member(program, table, handle, &action),
                    data.then(|| data::member(program, table, handle, &action)),
                )
            }
            ProfileAct::DumpGroup(handle) => {
                let members =
                    profile.group(handle).ok_or_else(|| refused(TableError::InvalidGroup(handle)))?;
                Reply::new(show::group(handle, &members), data.then(|| data::group(handle, &members)))
            }
            _ => Reply::new(
                show::profile(program, table, &profile),
                data.then(|| data::profile(program, table, &profile).into()),
            ),
        })
    }

    pub(super) fn change_profile(
        &self,
        command: ProfileCommand,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<Done> {
        let ProfileCommand { table, act } = command;
        let profile = self.profile(table)?;
        let mut done = Done::default();
        let undo = match act {
            ProfileAct::CreateMember(action) => {
                let handle = profile.create_member(action).map_err(refused)?;
                done.made = Some(handle);
                done.told = Some(format!("Member has been created with handle {handle}\n"));
                UndoProfile::Uncreate(handle)
            }
            ProfileAct::ModifyMember(handle, action) => {
                UndoProfile::Modify(handle, profile.modify_member(handle, action).map_err(refused)?)
            }
            ProfileAct::DeleteMember(handle) => {
                UndoProfile::Recreate(handle, profile.delete_member(handle).map_err(refused)?)
            }
            ProfileAct::CreateGroup => {
                let handle = profile.create_group().map_err(refused)?;
                done.made = Some(handle);
                done.told = Some(format!("Group has been created with handle {handle}\n"));
                UndoProfile::UncreateGroup(handle)
            }
            ProfileAct::DeleteGroup(handle) => {
                UndoProfile::RecreateGroup(handle, profile.delete_group(handle).map_err(refused)?)
            }
            ProfileAct::AddToGroup { member, group } => {
                profile.add_to_group(member, group).map_err(refused)?;
                UndoProfile::Remove(member, group)
            }
            ProfileAct::RemoveFromGroup { member, group } => {
                profile.remove_from_group(member, group).map_err(refused)?;
                UndoProfile::Add(member, group)
            }
            ProfileAct::DumpMember(_) | ProfileAct::DumpGroup(_) | ProfileAct::Dump => {
                unreachable!("not a change")
            }
        };
        if let Some(log) = log {
            log.push(Undo::Other(Box::new(UndoOther::Profile(table, undo))));
        }
        Ok(done)
    }

    /// Somebody else may have changed the same things meanwhile; those changes stay.
    pub(super) fn take_back_profile(
        &self,
        table: TableId,
        undo: &UndoProfile,
    ) -> std::result::Result<(), TableError> {
        let Ok(profile) = self.profile(table) else { return Ok(()) };
        match undo {
            UndoProfile::Uncreate(handle) => profile.delete_member(*handle).map(drop),
            UndoProfile::Modify(handle, action) => profile.modify_member(*handle, action.clone()).map(drop),
            UndoProfile::Recreate(handle, action) => {
                profile.restore_member(*handle, action.clone()).map(drop)
            }
            UndoProfile::UncreateGroup(handle) => profile.delete_group(*handle).map(drop),
            UndoProfile::RecreateGroup(handle, members) => profile.restore_group(*handle, members).map(drop),
            UndoProfile::Add(member, group) => profile.add_to_group(*member, *group),
            UndoProfile::Remove(member, group) => profile.remove_from_group(*member, *group),
        }
    }

    /// The changes that empty a profile which nothing uses.
    pub(super) fn empty_profile(&self, table: TableId) -> Vec<ProfileAct> {
        let Ok(profile) = self.profile(table) else { return Vec::new() };
        let groups = profile.groups().into_iter().map(|(handle, _)| ProfileAct::DeleteGroup(handle));
        let members = profile.members().into_iter().map(|(handle, _)| ProfileAct::DeleteMember(handle));
        groups.chain(members).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Control;
    use p4jet_dataplane::Switch;

    #[test]
    fn older_spellings_name_the_newer_ones() {
        let program = p4jet_ir::text::parse(include_str!("../../tests/common/sample.ir")).unwrap();
        let mut control = Control::new(Switch::new(program).unwrap());
        for (line, newer) in [
            ("table_indirect_create_member route out 1", "act_prof_create_member"),
            ("table_indirect_modify_member route out 0 2", "act_prof_modify_member"),
            ("table_indirect_create_group route", "act_prof_create_group"),
            ("table_indirect_add_member_to_group route 0 0", "act_prof_add_member_to_group"),
            ("table_indirect_remove_member_from_group route 0 0", "act_prof_remove_member_from_group"),
            ("table_indirect_delete_group route 0", "act_prof_delete_group"),
            ("table_indirect_delete_member route 0", "act_prof_delete_member"),
        ] {
            let note = control.reply(line, false).note.unwrap();
            assert_eq!(note, format!("This is a deprecated command, use '{newer}' instead"), "{line}");
        }
        for line in ["act_prof_create_member ecmp out 1", "table_dump_member route 0"] {
            assert_eq!(control.reply(line, false).note, None, "{line}");
        }
    }
}
