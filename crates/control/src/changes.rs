//! The changes of a batch in the form of the journal.

use crate::made::Made;
use crate::schema::Schema;
use crate::update::Update;
use p4jet_ir::TableId;
use std::io;

/// Changes for the journal, as JSON: millions of updates would take much more memory.
pub(crate) struct Changes {
    /// The journal's record: its beginning, then the updates, each followed by a comma.
    record: Vec<u8>,
    /// The start of the last update.
    last: usize,
    /// The table and action of the latest insertion, which the next one need not repeat.
    inserted: (Option<TableId>, Option<u32>),
    /// The handle of the object that each update created.
    handles: Vec<Option<u32>>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { record: Changes::beginning(0, 0), last: 0, inserted: (None, None), handles: Vec::new() }
    }
}

impl Changes {
    /// The beginning of a record. Its length is fixed.
    fn beginning(serial: u64, number: u64) -> Vec<u8> {
        format!(r#"{{"did":{{"serial":{serial:>20},"number":{number:>20},"updates":["#).into_bytes()
    }

    /// Adds an update that is about to be applied. [`Self::done`] or [`Self::forget`] follows. `made` has the handles that earlier
    /// updates of the batch created.
    pub fn add(&mut self, schema: &Schema, update: &Update, made: &Made) {
        self.last = self.record.len();
        schema.write_named(update, made, &mut self.inserted, &mut self.record);
        self.record.push(b',');
    }

    /// Confirms that the update was applied.
    pub fn done(&mut self, made: Option<u32>) {
        self.handles.push(made);
    }

    /// Removes the update, which was refused.
    pub fn forget(&mut self) {
        self.record.truncate(self.last);
        // The table and action that the next one would not repeat may be lost.
        self.inserted = (None, None);
    }

    /// Returns the current length.
    pub fn mark(&self) -> (usize, usize) {
        (self.record.len(), self.handles.len())
    }

    /// Removes everything after a mark.
    pub fn back_to(&mut self, (record, handles): (usize, usize)) {
        self.record.truncate(record);
        self.handles.truncate(handles);
        self.inserted = (None, None);
    }

    /// True if nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    /// The journal's record of these changes.
    pub fn into_record(mut self, serial: u64, number: u64) -> io::Result<Vec<u8>> {
        let beginning = Changes::beginning(serial, number);
        self.record[..beginning.len()].copy_from_slice(&beginning);
        if self.record.ends_with(b",") {
            self.record.pop();
        }
        self.record.extend_from_slice(br#"],"handles":"#);
        serde_json::to_writer(&mut self.record, &self.handles)?;
        self.record.extend_from_slice(b"}}");
        Ok(self.record)
    }
}
