//! Runtime commands, their updates, and the names of these.

mod common;

use common::control;
use p4jet_control::NamedUpdate;
use p4jet_text::read_command;
use std::collections::BTreeSet;

/// The update of each command survives naming, writing and reading.
#[test]
fn updates_survive_their_names() {
    let control = control();
    let mut kinds = BTreeSet::new();
    for line in include_str!("changes.txt").lines() {
        let update = read_command(&control, line).unwrap().unwrap_or_else(|| panic!("{line}"));
        let json = serde_json::to_string(&control.named(&update)).unwrap();
        let read: NamedUpdate = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{json}: {e}"));
        assert_eq!(control.resolve(&read).unwrap(), update, "{json}");
        // Its text form is that command.
        let text = read.to_string();
        if !text.starts_with('{') {
            assert_eq!(read_command(&control, &text).unwrap(), Some(update), "{text}");
        }
        kinds.insert(json.split('"').nth(1).unwrap().to_string());
    }
    // All kinds of updates.
    assert_eq!(kinds.len(), 39, "{kinds:?}");
    assert_eq!(read_command(&control, "table_dump l2").unwrap(), None);
    assert!(read_command(&control, "table_add l3").is_err());
}
