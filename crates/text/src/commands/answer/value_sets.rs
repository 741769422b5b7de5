//! Output of value set commands.

use super::{Answerer, Reply, data, show};
use p4jet_control::ObjectKind;
use p4jet_ir::TableId;
use p4jet_tables::Entry;

impl Answerer<'_> {
    /// Lists all value sets.
    pub(super) fn value_sets_reply(self, data: bool) -> Reply {
        let sets = || {
            self.schema().names(ObjectKind::ValueSet).sorted().map(|set| &self.program().tables[set as usize])
        };
        Reply::new(sets().map(show::value_set).collect(), data.then(|| sets().map(data::value_set).collect()))
    }

    /// Lists the values of a set.
    pub(super) fn value_set_reply(self, set: TableId, data: bool) -> Reply {
        let keys = &self.program().tables[set.index()].keys;
        let members: Vec<Entry> = self.switch().table(set).entries().map(|(_, entry)| entry).collect();
        Reply::new(
            members.iter().map(|entry| show::set_member(keys, &entry.key)).collect(),
            data.then(|| members.iter().map(|entry| data::set_member(keys, &entry.key)).collect()),
        )
    }
}
