//! Output of value set commands.

use super::{Answerer, Reply, Result, data, show};
use p4jet_control::{Entity, ObjectKind, Selector};
use p4jet_ir::TableId;

impl Answerer<'_> {
    /// Lists all value sets.
    pub(super) fn value_sets_reply(self, data: bool) -> Reply {
        let sets = || {
            self.schema().names(ObjectKind::ValueSet).sorted().map(|set| &self.program().tables[set as usize])
        };
        Reply::new(sets().map(show::value_set).collect(), data.then(|| sets().map(data::value_set).collect()))
    }

    /// Lists the values of a set.
    pub(super) fn value_set_reply(self, set: TableId, data: bool) -> Result<Reply> {
        let keys = &self.program().tables[set.index()].keys;
        let (mut text, mut values) = (String::new(), Vec::new());
        self.read_all(&Selector::ValueSet(set), |entity| {
            let Entity::Value(key) = entity else { return };
            text += &show::set_member(keys, &key);
            if data {
                values.push(data::set_member(keys, &key));
            }
        })?;
        Ok(Reply::new(text, data.then(|| values.into())))
    }
}
