//! The sizes of table rows in memory.

use crate::widths::limb_count;
use p4jet_ir::Program;

/// The words of the rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct RowWords {
    /// Of an entry: those of the longest action, or of a member or group, and the time of the last hit.
    pub entry: usize,
    /// Of a member: those of the longest action.
    pub member: usize,
}

/// The words of the rows of each table.
pub fn row_words(program: &Program) -> Vec<RowWords> {
    let data =
        |params: &[p4jet_ir::FieldId]| params.iter().map(|p| limb_count(program.width(*p))).sum::<usize>();
    let of_table = |table: &p4jet_ir::Table| {
        let actions = table.actions.iter().map(|action| &program.actions[action.action.index()]);
        let member = 1 + actions.map(|action| data(&action.params)).max().unwrap_or(0);
        let entry = member.max(if table.profile.is_some() { 3 } else { 1 }) + usize::from(table.idle_timeout);
        RowWords { entry, member }
    };
    program.tables.iter().map(of_table).collect()
}
