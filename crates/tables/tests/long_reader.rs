//! A reader that never unpins. The test is alone in its process because epochs belong to the whole process.

use p4jet_tables::*;

fn action(version: u64) -> Action {
    Action { action: 0, data: vec![version.into()] }
}

#[test]
fn a_long_reader_makes_the_writer_give_up_in_time() {
    let mut table = Table::new(TableSpec {
        keys: vec![KeySpec { width: 16, kind: MatchKind::Exact }],
        actions: vec![ActionSpec { param_widths: vec![64] }],
        size: 600,
        row_per_entry: true,
        idle_timeout: false,
        default: action(0),
    });
    let key = vec![KeyMatch::Exact(1u32.into())];
    let handle = table.insert(Entry { key, priority: 0, action: action(0) }).unwrap();
    let guard = pin();
    let error = (1..10).find_map(|version| table.modify(handle, action(version)).err());
    assert_eq!(error, Some(TableError::Busy));
    drop(guard);
    table.modify(handle, action(10)).unwrap();
    assert_eq!(table.get(handle).unwrap().action, action(10));
}
