//! Runtime commands, their updates, and the names of these.

use crate::common::control;
use p4jet_control::NamedUpdate;
use p4jet_text::{read_command, runtime_command};
use std::collections::BTreeSet;

/// The update of each command survives naming, writing and reading.
#[test]
fn updates_survive_their_names() {
    let control = control();
    let (mut kinds, mut formatted) = (BTreeSet::new(), 0);
    for line in include_str!("changes.txt").lines() {
        let update = read_command(&control, line).unwrap().unwrap_or_else(|| panic!("{line}"));
        let json = serde_json::to_string(&control.schema().named(&update)).unwrap();
        let read: NamedUpdate = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{json}: {e}"));
        assert_eq!(control.schema().resolve(&read).unwrap(), update, "{json}");
        // Its runtime command, if it has one, has the same update.
        if let Some(text) = runtime_command(control.schema(), &update, |_, _, value| value.to_string()) {
            assert_eq!(read_command(&control, &text).unwrap(), Some(update), "{text}");
            formatted += 1;
        }
        kinds.insert(json.split('"').nth(1).unwrap().to_string());
    }
    assert!(formatted >= 20, "{formatted}");
    // All kinds of updates.
    assert_eq!(kinds.len(), 39, "{kinds:?}");
    assert_eq!(read_command(&control, "table_dump l2").unwrap(), None);
    assert!(read_command(&control, "table_add l3").is_err());
}
