//! Multicast groups for tests.

use p4jet_externs::{Replica, State};

/// Sets a multicast group: it gets a node for each copy.
pub fn set_group(state: &State, group: u32, copies: impl IntoIterator<Item = Replica>) {
    let set = state.change_multicast(|multicast| {
        multicast.take_group(group);
        multicast.create_group(group);
        copies.into_iter().try_for_each(|Replica { port, replication_id }| {
            let node = multicast.create_node(replication_id, [port].into(), [].into())?;
            multicast.associate(group, node)
        })
    });
    set.expect("room for the nodes");
}
