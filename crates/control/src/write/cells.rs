//! Counters, registers and meters.

use crate::control::Control;
use crate::error::{ControlError, INVALID_INDEX, Result, Subject};
use crate::schema::{Cells, RegisterCells};
use crate::update::{DEFAULT_CELL, Update};
use num_bigint::BigUint;
use p4jet_externs::{CounterValue, Rates, StateError};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{EntryHandle, TableError};
use std::ops::Range;

impl Control {
    /// Converts the refusal of a counter, meter or register to an error that names it.
    pub(crate) fn no_cell(&self, kind: Subject, id: InstanceId) -> impl Fn(StateError) -> ControlError + '_ {
        let name = self.schema.instance_name(id);
        move |error| ControlError::refused(kind, INVALID_INDEX, error).entity(name).field("index")
    }

    /// The cell behind an index of a counter or meter; for a direct one the index is an entry's handle, or [`DEFAULT_CELL`].
    fn cell_at(&self, kind: Subject, of: InstanceId, cells: Cells, index: u32) -> Result<u32> {
        self.schema.check_index(kind, of, cells, index)?;
        let Cells::Direct(id) = cells else { return Ok(index) };
        let table = self.switch.table(id);
        let handle = EntryHandle(index);
        match table.get(handle) {
            Some(_) => Ok(table.row_of(handle)),
            // The row of a miss.
            None if index == DEFAULT_CELL => Ok(0),
            None => Err(self.refused(id)(TableError::InvalidHandle(handle))),
        }
    }

    /// The handles of a direct counter's or meter's entries; none for other ones.
    fn direct_handles(&self, instance: InstanceId) -> Vec<u32> {
        let table = self.schema.direct_table(instance);
        table
            .map_or_else(Vec::new, |id| self.switch.table(id).entries().map(|(handle, _)| handle.0).collect())
    }

    /// Packets and bytes of a counter at an index; for a direct counter the index is an entry's handle.
    ///
    /// # Errors
    ///
    /// The program has no such counter, the index is outside the counter, or no entry has the handle.
    pub fn counter_value(&self, counter: InstanceId, index: u32) -> Result<CounterValue> {
        let cell = self.cell_at(Subject::Counter, counter, self.schema.counter_cells(counter)?, index)?;
        self.switch.state().counter_read(counter.0, cell).map_err(self.no_cell(Subject::Counter, counter))
    }

    pub(crate) fn write_counter(&self, counter: InstanceId, index: u32, value: CounterValue) -> Result<()> {
        let cell = self.cell_at(Subject::Counter, counter, self.schema.counter_cells(counter)?, index)?;
        let done = self.switch.state().counter_write(counter.0, cell, value);
        done.map_err(self.no_cell(Subject::Counter, counter))
    }

    /// The values of a counter that are not 0, with their indices.
    pub(crate) fn counter_values(&self, counter: InstanceId) -> impl Iterator<Item = (u32, CounterValue)> {
        let default = self.schema.direct_table(counter).map(|_| DEFAULT_CELL);
        let direct = self.direct_handles(counter).into_iter().chain(default);
        let direct = direct.filter_map(move |index| Some((index, self.counter_value(counter, index).ok()?)));
        let direct = direct.filter(|(_, value)| *value != CounterValue::default());
        self.switch.state().counter_values(counter.0).chain(direct)
    }

    /// The rates of a meter, with the indices of the cells that have some. Those of a direct meter's default action are not among
    /// them.
    pub(crate) fn meter_values(&self, meter: InstanceId) -> impl Iterator<Item = (u32, Rates)> {
        let direct = self.direct_handles(meter).into_iter();
        let direct = direct.filter_map(move |index| Some((index, self.meter_rates(meter, index).ok()??)));
        self.switch.state().meter_values(meter.0).chain(direct)
    }

    /// Resets the direct counters and meters of a row for a new entry before packets can match it. The row may have
    /// counted for an earlier entry.
    pub(crate) fn reset_direct(&self, table: TableId, row: u32) {
        let state = self.switch.state();
        // The cells exist: the table has the row.
        for counter in &self.schema.shape(table).direct_counters {
            let _ = state.counter_write(counter.0, row, CounterValue::default());
        }
        for meter in &self.schema.shape(table).direct_meters {
            let _ = state.meter_set_rates(meter.0, row, None);
            let _ = state.meter_reset_counts(meter.0, row);
        }
    }

    pub(crate) fn direct_counts(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Vec<(InstanceId, CounterValue)> {
        let counters = &self.schema.shape(table).direct_counters;
        counters.iter().filter_map(|c| Some((*c, self.counter_value(*c, handle.0).ok()?))).collect()
    }

    pub(crate) fn direct_rates(
        &self,
        table: TableId,
        handle: EntryHandle,
    ) -> Vec<(InstanceId, Option<Rates>)> {
        let meters = &self.schema.shape(table).direct_meters;
        meters.iter().filter_map(|m| Some((*m, self.meter_rates(*m, handle.0).ok()?))).collect()
    }

    /// The rates of a meter's cell; for a direct meter the index is an entry's handle.
    ///
    /// # Errors
    ///
    /// The program has no such meter, the index is outside the meter, or no entry has the handle.
    pub fn meter_rates(&self, meter: InstanceId, index: u32) -> Result<Option<Rates>> {
        let cell = self.cell_at(Subject::Meter, meter, self.schema.meter_cells(meter)?, index)?;
        self.switch.state().meter_rates(meter.0, cell).map_err(self.no_cell(Subject::Meter, meter))
    }

    pub(crate) fn set_meter(&self, meter: InstanceId, index: u32, rates: Option<Rates>) -> Result<()> {
        let cell = self.cell_at(Subject::Meter, meter, self.schema.meter_cells(meter)?, index)?;
        let done = self.switch.state().meter_set_rates(meter.0, cell, rates);
        done.map_err(self.no_cell(Subject::Meter, meter))
    }

    /// Sets the rates of all cells, except that of a direct meter's default action.
    pub(crate) fn set_meters(&self, meter: InstanceId, rates: Option<Rates>) -> Result<()> {
        let all = self.switch.state().meter_set_cells_rates(meter.0, 0..u32::MAX, rates);
        all.map_err(self.no_cell(Subject::Meter, meter))?;
        self.direct_handles(meter).into_iter().try_for_each(|index| self.set_meter(meter, index, rates))
    }

    /// The array and its size, if the update sets all its cells, only those, and no packet must fall between two of them.
    pub(crate) fn array_of(&self, update: &Update) -> Option<(InstanceId, u32)> {
        let (array, size) = match update {
            Update::ResetRegister(id) if self.schema.held_cells(update) == 0 => {
                return Some((*id, self.schema.register_cells(*id).ok()?.size));
            }
            Update::ResetCounter(id) => (*id, self.schema.counter_cells(*id).ok()?),
            Update::SetMeterArray { meter, .. } => (*meter, self.schema.meter_cells(*meter).ok()?),
            _ => return None,
        };
        match size {
            Cells::Array(size) => Some((array, size)),
            Cells::Direct(_) => None,
        }
    }

    /// Applies an update of [`Self::array_of`] to some of the cells.
    pub(crate) fn set_some(&self, update: &Update, cells: Range<u32>) -> Result<()> {
        let state = self.switch.state();
        let (kind, id, done) = match update {
            Update::ResetRegister(id) => (Subject::Register, *id, state.register_reset_cells(id.0, cells)),
            Update::ResetCounter(id) => (Subject::Counter, *id, state.counter_reset_cells(id.0, cells)),
            Update::SetMeterArray { meter, rates } => {
                (Subject::Meter, *meter, state.meter_set_cells_rates(meter.0, cells, *rates))
            }
            _ => unreachable!("the caller chose the updates of arrays"),
        };
        done.map_err(self.no_cell(kind, id))
    }

    /// The value of a register's cell.
    ///
    /// # Errors
    ///
    /// The program has no such register, or the index is outside the register.
    pub fn register_value(&self, register: InstanceId, cell: u32) -> Result<BigUint> {
        let RegisterCells { size, .. } = self.schema.register_cells(register)?;
        self.schema.check_index(Subject::Register, register, Cells::Array(size), cell)?;
        self.switch.state().register_read(register.0, cell).map_err(self.no_cell(Subject::Register, register))
    }

    pub(crate) fn write_register(&self, register: InstanceId, cell: u32, value: &BigUint) -> Result<()> {
        let done = self.switch.state().register_write(register.0, cell, value);
        done.map_err(self.no_cell(Subject::Register, register))
    }

    /// The values of all cells of a register.
    ///
    /// # Errors
    ///
    /// The program has no such register.
    pub fn register_values(&self, register: InstanceId) -> Result<Vec<BigUint>> {
        let RegisterCells { size, .. } = self.schema.register_cells(register)?;
        (0..size).map(|cell| self.register_value(register, cell)).collect()
    }
}
