//! Changes beside readers on a busy machine.

use p4jet_tables::TableError;

/// The result of a change. On a busy machine, readers that do not get a processor may delay a change for longer than it waits.
pub fn patiently<T>(mut change: impl FnMut() -> Result<T, TableError>) -> T {
    for _ in 0..60 {
        match change() {
            Err(TableError::Busy) => {}
            result => return result.unwrap(),
        }
    }
    panic!("readers prevented a change for a minute");
}
