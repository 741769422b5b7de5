//! Action profiles: members, groups, and the entries that name them.

use super::{Change, Command, Line, LineParser, Named, Parsed, Token, key_and_rest, number};
use crate::error::LineError;
use p4jet_control::names::unknown;
use p4jet_control::schema::{check_indirect, check_selector};
use p4jet_control::{Act, ObjectKind, Update};
use p4jet_ir::{InstanceId, TableId};

/// The command equivalent to an older spelling with a table's name.
pub(crate) fn substitute(name: &str) -> Option<&'static str> {
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

/// The handle of an existing object.
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
                self.profile_name(table)
            );
            return Err(LineError::new(message).at(line.tokens[1].span()));
        }
        let member = |at| self.handle(line.get(at, "a member handle")?, "a member handle");
        let group = |at| self.handle(line.get(at, "a group handle")?, "a group handle");
        let profile = self.profile_id(table);
        let (command, end): (Command<'_>, _) = match older.unwrap_or(name) {
            "act_prof_create_member" => {
                let action = self.member_action(line, table)?;
                let data = self.action_data(line, table, action, 3..line.tokens.len())?;
                (Update::CreateMember { profile, action: data }.into(), line.tokens.len())
            }
            "act_prof_modify_member" => {
                let action = self.member_action(line, table)?;
                let member = member(3)?;
                let data = self.action_data(line, table, action, super::params_after(line, 4))?;
                (Update::ModifyMember { profile, member, action: data }.into(), line.tokens.len())
            }
            "act_prof_delete_member" => (Update::DeleteMember { profile, member: member(2)? }.into(), 3),
            "act_prof_dump_member" | "table_dump_member" => {
                (Command::MemberDump(table, handle(line.get(2, "a member handle")?, "a member handle")?), 3)
            }
            "act_prof_dump_group" | "table_dump_group" => {
                (Command::GroupDump(table, handle(line.get(2, "a group handle")?, "a group handle")?), 3)
            }
            "act_prof_dump" => (Command::ProfileDump(table), 2),
            of_selector => {
                self.check_selector(line, table)?;
                match of_selector {
                    "act_prof_create_group" => (Update::CreateGroup { profile }.into(), 2),
                    "act_prof_delete_group" => (Update::DeleteGroup { profile, group: group(2)? }.into(), 3),
                    "act_prof_add_member_to_group" => {
                        let (member, group) = (member(2)?, group(3)?);
                        (Update::AddToGroup { profile, group, member }.into(), 4)
                    }
                    "act_prof_remove_member_from_group" => {
                        let (member, group) = (member(2)?, group(3)?);
                        (Update::RemoveFromGroup { profile, group, member }.into(), 4)
                    }
                    other => unreachable!("command {other} is listed but not parsed"),
                }
            }
        };
        line.ends_after(end)?;
        Ok(command)
    }

    /// A table that uses the action profile named by the first argument.
    fn table_of_profile(&self, line: &Line<'_, 'a>) -> Parsed<TableId> {
        let token = line.get(1, "an action profile name")?;
        let profile = super::named(self.schema.names(ObjectKind::Profile), token, InstanceId)?;
        self.schema.profile_table(profile.id).map_err(|error| LineError::from(error).at(token.span()))
    }

    /// The table named by the first argument, which uses an action profile.
    pub(super) fn indirect_table(&self, line: &Line<'_, 'a>) -> Parsed<Named<'a, TableId>> {
        let table = self.table(line)?;
        match check_indirect(&self.program.tables[table.id.index()]) {
            Ok(_) => Ok(table),
            Err(error) => {
                // The words of bmv2.
                let message = format!("Error: Cannot run this command on non-indirect table: {error}");
                Err(LineError { message, ..error.into() }.at(line.tokens[1].span()))
            }
        }
    }

    /// The action of a member, as an index in the list of a table that uses the profile.
    fn member_action(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<Named<'a, u32>> {
        let token = line.get(2, "an action name")?;
        let actions = self.schema.names(ObjectKind::ActionOf(table));
        self.action(line, table).map_err(|_| {
            let choices = unknown(token.text, actions.names(), "its actions are");
            let message = format!(
                "Error: Action profile '{}' has no action '{}': {choices}",
                self.profile_name(table),
                token.text
            );
            LineError::new(message).at(token.span())
        })
    }

    fn profile_id(&self, table: TableId) -> InstanceId {
        self.program.tables[table.index()].profile.expect("the caller chose a table with one")
    }

    fn profile_name(&self, table: TableId) -> &str {
        &self.program.instances[self.profile_id(table).index()].name
    }

    /// Refuses action profiles without groups.
    fn check_selector(&self, line: &Line<'_, 'a>, table: TableId) -> Parsed<()> {
        check_selector(self.program, self.profile_id(table)).map_err(|error| {
            let name = self.profile_name(table);
            // The words of bmv2.
            let message = format!(
                "Error: Cannot run this command on an action profile without selector: `{name}` has no groups"
            );
            LineError { message, ..error.into() }.at(line.tokens[1].span())
        })
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
            Ok::<_, LineError>(match of_group {
                true => Act::Group(self.handle(token, "a group handle")?),
                false => Act::Member(self.handle(token, "a member handle")?),
            })
        };
        let what = if of_group { "a group handle" } else { "a member handle" };
        match line.spec.name {
            "table_indirect_set_default" | "table_indirect_set_default_with_group" => {
                let call = named(line.get(2, what)?)?;
                line.ends_after(3)?;
                Ok(Update::SetDefault { table: table.id, act: call }.into())
            }
            _ => {
                let needs_priority = self.schema.shape(table.id).needs_priority;
                let of = format!("{} on table {}", line.spec.name, table.typed);
                let takes = match needs_priority {
                    true => format!(", {what} and a priority"),
                    false => format!(" and {what}"),
                };
                let words = (ir.keys.len(), 1 + usize::from(needs_priority));
                let (key, rest) = key_and_rest(line, 2, words, &of, &takes)?;
                let (key, note) = self.match_key(line, table.id, key.clone(), key.end)?;
                let act = named(line.get(rest.start, what)?)?;
                let priority = if needs_priority {
                    let token = line.tokens.get(rest.start + 1).copied();
                    let token = token.ok_or_else(|| self.priority_missing(line, table.id))?;
                    line.ends_after(rest.start + 2)?;
                    self.priority(token, table.id)?
                } else {
                    line.ends_after(rest.start + 1)?;
                    0
                };
                let update = Update::Insert { table: table.id, key, priority, act };
                Ok(Command::Change(Change { note, ..Change::new(update) }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Commands;
    use p4jet_control::Control;
    use p4jet_dataplane::Switch;

    #[test]
    fn older_spellings_name_the_newer_ones() {
        let program =
            p4jet_ir::text::parse(include_str!("../../../../control/tests/common/sample.ir")).unwrap();
        let control = Control::new(Switch::new(program).unwrap());
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
