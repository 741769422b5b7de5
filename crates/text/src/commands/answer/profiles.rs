//! Output of action profile commands.

use super::{Answerer, Reply, Result, data, show};
use p4jet_ir::TableId;
use p4jet_tables::TableError;

impl Answerer<'_> {
    /// Describes one member.
    pub(super) fn member_reply(self, table: TableId, handle: u32, data: bool) -> Result<Reply> {
        let action = self.control.profile(table)?.member(handle);
        let action = action.ok_or_else(|| self.control.refused(table)(TableError::InvalidMember(handle)))?;
        let (program, table) = (self.program(), &self.program().tables[table.index()]);
        Ok(Reply::new(
            show::member(program, table, handle, &action),
            data.then(|| data::member(program, table, handle, &action)),
        ))
    }

    /// Describes one group.
    pub(super) fn group_reply(self, table: TableId, handle: u32, data: bool) -> Result<Reply> {
        let members = self.control.profile(table)?.group(handle);
        let members = members.ok_or_else(|| self.control.refused(table)(TableError::InvalidGroup(handle)))?;
        Ok(Reply::new(show::group(handle, &members), data.then(|| data::group(handle, &members))))
    }

    /// Describes all members and groups.
    pub(super) fn profile_reply(self, table: TableId, data: bool) -> Result<Reply> {
        let profile = self.control.profile(table)?;
        let (program, table) = (self.program(), &self.program().tables[table.index()]);
        Ok(Reply::new(
            show::profile(program, table, &profile),
            data.then(|| data::profile(program, table, &profile).into()),
        ))
    }
}
