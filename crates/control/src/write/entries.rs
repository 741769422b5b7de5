//! Adds and deletes entries of tables and value sets, and undoes it.

use super::undo::{Removed, Retries, Undo, UndoOther, with_rest};
use crate::control::Control;
use crate::error::{ControlError, Result};
use crate::guard::{HEAP_BLOCK_BYTES, guarded};
use crate::schema::is_const_entry;
use crate::update::Direct;
use num_bigint::BigUint;
use p4jet_externs::{CounterValue, Rates};
use p4jet_ir::{InstanceId, TableAction, TableId};
use p4jet_tables::{Entry, EntryHandle, KeyMatch, TableError};

impl Control {
    /// Adds an entry.
    pub(crate) fn add(
        &self,
        table: TableId,
        entry: Entry,
        direct: &Direct,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<EntryHandle> {
        let mut t = self.switch.table(table);
        let generation = t.next_generation();
        let inserted = t.insert_prepared(entry, |row| {
            self.reset_direct(table, row);
            let state = self.switch.state();
            // The cells exist: the table has the row.
            if let Some((counter, value)) = direct.counter {
                let _ = state.counter_write(counter.0, row, value);
            }
            if let Some((meter, rates)) = direct.meter {
                let _ = state.meter_set_rates(meter.0, row, Some(rates));
            }
        });
        let handle = inserted.map_err(self.refused(table))?;
        if let Some(log) = log {
            log.push(Undo::Insert(table, handle, generation));
        }
        Ok(handle)
    }

    /// Adds an entry with its former handle.
    pub(crate) fn add_at(
        &self,
        table: TableId,
        handle: u32,
        entry: Entry,
        log: Option<&mut Vec<Undo>>,
    ) -> Result<()> {
        let mut t = self.switch.table(table);
        let (next, generation) = (t.next_generation(), t.free_generation(EntryHandle(handle)));
        let restored = t.restore_prepared(EntryHandle(handle), entry, |row| self.reset_direct(table, row));
        let got = restored.map_err(self.refused(table))?;
        if got.0 != handle {
            let _ = t.undo_insert(got, next);
            let (name, size) = (self.schema.table_name(table), t.spec().size);
            let why = format!(
                "handle {handle}: another entry has its place, or `{name}` has no such place: its size is {size}"
            );
            return Err(ControlError::new(why).entity(name).field("handle"));
        }
        if let Some(log) = log {
            log.push(Undo::Insert(table, got, generation));
        }
        Ok(())
    }

    /// Deletes an entry.
    pub(crate) fn delete(
        &self,
        table: TableId,
        handle: EntryHandle,
        log: Option<&mut Vec<Undo>>,
    ) -> std::result::Result<(), TableError> {
        let Some(log) = log else { return self.switch.table(table).delete(handle).map(drop) };
        let (counts, rates) = (self.direct_counts(table, handle), self.direct_rates(table, handle));
        let mut t = self.switch.table(table);
        let (timeout, age) = (t.saved_timeout(handle), t.age(handle));
        let entry = t.delete(handle)?;
        let removed = vec![Removed { handle, entry, counts, rates, timeout, age }];
        log.push(UndoOther::Entries(table, removed, Vec::new()).into());
        Ok(())
    }

    /// Deletes all entries of a table except const ones.
    pub(crate) fn clear(&self, id: TableId, log: Option<&mut Vec<Undo>>) -> Result<()> {
        let declared = &self.program().tables[id.index()];
        let keeps_some = declared.entries.iter().any(|e| e.is_const);
        let entries: Vec<_> = match log {
            None if !keeps_some => Vec::new(),
            _ => {
                let table = self.switch.table(id);
                table.entries_by_age().filter(|(h, _)| !is_const_entry(declared, h.0)).collect()
            }
        };
        let removed: Vec<_> = entries
            .into_iter()
            .map(|(handle, entry)| {
                let (counts, rates) = (self.direct_counts(id, handle), self.direct_rates(id, handle));
                let table = self.switch.table(id);
                let (timeout, age) = (table.saved_timeout(handle), table.age(handle));
                Removed { handle, entry, counts, rates, timeout, age }
            })
            .collect();
        let generations = self.switch.table(id).retired_generations().collect();
        if keeps_some {
            let delete = |entry: &Removed| self.switch.table(id).delete(entry.handle).err();
            let failed = removed.iter().enumerate().find_map(|(i, entry)| Some((i, delete(entry)?)));
            if let Some((done, error)) = failed {
                let done = removed.into_iter().take(done).collect();
                let undone = guarded(|| {
                    let mut retries = Retries::begin();
                    self.put_entries_back(id, done, generations, &mut retries);
                    retries.end()
                });
                return Err(with_rest(self.refused(id)(error), undone));
            }
        } else {
            self.switch.table(id).clear();
        }
        if let Some(log) = log {
            log.push(UndoOther::Entries(id, removed, generations).into());
        }
        Ok(())
    }

    /// Puts deleted entries back.
    pub(crate) fn put_entries_back(
        &self,
        table: TableId,
        removed: Vec<Removed>,
        generations: Vec<(u32, u8)>,
        retries: &mut Retries,
    ) {
        for (slot, generation) in generations {
            self.switch.table(table).set_free_generation(slot, generation);
        }
        let refused = self.refused(table);
        let state = self.switch.state();
        for Removed { handle, entry, counts, rates, timeout, age } in removed {
            // Packets that match the restored entry are counted and metered as before.
            let prepare = |row| {
                for (counter, value) in &counts {
                    let _ = state.counter_write(counter.0, row, *value);
                }
                for (meter, rates) in &rates {
                    let _ = state.meter_set_rates(meter.0, row, *rates);
                }
            };
            retries.run(|| {
                let mut table = self.switch.table(table);
                let restored = table.restore_aged(handle, entry.clone(), age, prepare);
                let handle = restored.map_err(&refused)?;
                if let Some(timeout) = timeout {
                    table.restore_timeout(handle, timeout, None);
                }
                Ok(())
            });
        }
    }

    /// Memory to undo the deletion of all entries of a table.
    pub(crate) fn undo_bytes_of_entries(&self, id: TableId) -> usize {
        let (declared, shape) = (&self.program().tables[id.index()], &self.schema.shape(id));
        let params = |action: &TableAction| self.program().actions[action.action.index()].params.len();
        let params = declared.actions.iter().map(params).max().unwrap_or(0);
        // An entry is listed before it becomes an undo step. A match has up to two values on the heap.
        let each = size_of::<Removed>()
            + size_of::<(EntryHandle, Entry)>()
            + declared.keys.len() * (size_of::<KeyMatch>() + 2 * HEAP_BLOCK_BYTES)
            + params * (size_of::<BigUint>() + HEAP_BLOCK_BYTES)
            + shape.direct_counters.len() * size_of::<(InstanceId, CounterValue)>()
            + shape.direct_meters.len() * size_of::<(InstanceId, Option<Rates>)>()
            + 4 * HEAP_BLOCK_BYTES;
        self.switch.table(id).len().saturating_mul(each)
    }
}
