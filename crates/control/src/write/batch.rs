//! Batches of updates: all or nothing, or each on its own.

use super::undo::Undo;
use crate::changes::Changes;
use crate::control::Control;
use crate::error::{ControlError, Result};
use crate::guard::{MemoryClaim, claim_for_places, claim_for_updates, guarded};
use crate::held::each_held;
use crate::made::{Kind, Made};
use crate::presence::Presence;
use crate::update::{Atomicity, Cell, Direct, Update};
use p4jet_tables::Entry;

/// The outcome of a batch of updates.
#[derive(Clone, Debug)]
pub struct Written {
    /// For each update, in order: the handle of the object that it created, if any, or the refusal.
    pub results: Vec<Result<Option<u32>>>,
    /// True if the updates that were not refused are in effect.
    pub in_effect: bool,
}

impl Written {
    /// The result of a batch that was undone because of one of its updates.
    fn aborted(total: usize, place: usize, error: ControlError) -> Written {
        let why = format!("not applied: update {place} of the batch was refused");
        let mut results = vec![Err(ControlError::new(why).code("ABORTED")); total];
        if let Some(refused) = results.get_mut(place) {
            *refused = Err(error);
        }
        Written { results, in_effect: false }
    }
}

/// A point between two updates of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    undo: usize,
    changes: Option<(usize, usize)>,
}

/// Updates that are applied one after the other as they arrive. Of a batch that can be undone, the switch keeps all changes
/// or none; if it is dropped without [`Batch::commit`], the switch keeps none.
pub struct Batch {
    control: Control,
    /// The undo steps; `None` if each update is independent.
    log: Option<Vec<Undo>>,
    made: Made,
    /// The changes for the journal.
    changes: Option<Changes>,
    /// The number of updates that the caller announced.
    expected: usize,
    /// The number of updates for which memory has been checked.
    checked: usize,
    /// Their memory.
    memory: Option<MemoryClaim>,
    /// True if the owner of the notes makes the updates.
    is_owners: bool,
    /// True if changes were settled.
    settled: bool,
    /// The number of cells whose old values the undo steps hold.
    undo_cells: usize,
}

/// Maximum number of old values of cells that a batch which can be undone holds before an update. One update may add those of all cells.
const UNDO_CELLS_MAX: usize = 1 << 24;

/// The number of undo steps for which a batch has room from the start.
const LOG_MAX: usize = 1 << 16;

impl Batch {
    pub(crate) fn new(
        control: &Control,
        atomicity: Atomicity,
        updates: usize,
        changes: Option<Changes>,
    ) -> Batch {
        let log = (atomicity == Atomicity::AllOrNothing).then(|| Vec::with_capacity(updates.min(LOG_MAX)));
        Batch {
            control: control.clone(),
            log,
            made: Made::default(),
            changes,
            expected: updates,
            checked: 0,
            memory: None,
            settled: false,
            is_owners: false,
            undo_cells: 0,
        }
    }

    /// Marks the updates as those of the owner of the notes ([`NoteOwner`](crate::NoteOwner)).
    pub(crate) fn set_owners(&mut self) {
        self.is_owners = true;
    }

    /// Applies one update, or leaves the switch unchanged. Returns the handle of the created object. Later updates of the batch can
    /// refer to the object by [`Ref::Made`]: every call counts, including refused updates.
    ///
    /// # Errors
    ///
    /// The program does not allow the update, or a table refuses it.
    pub fn write(&mut self, update: Update) -> Result<Option<u32>> {
        self.write_at(update, None)
    }

    /// Like [`Self::write`]; the created object gets this handle, if one is given and it is free.
    ///
    /// # Errors
    ///
    /// Those of [`Self::write`], or the handle is in use or too high.
    pub fn write_at(&mut self, update: Update, handle: Option<u32>) -> Result<Option<u32>> {
        let kind = Kind::made_by(&update);
        let done = self.carry_out(update, handle);
        self.made.push(kind, done.as_ref().ok().copied().flatten());
        done
    }

    /// Like [`Self::write`] for an update that adds an entry, whose direct counter and meter get these values before packets can find
    /// the entry.
    ///
    /// # Errors
    ///
    /// Those of [`Self::write`].
    pub fn insert(&mut self, update: Update, direct: &Direct) -> Result<Option<u32>> {
        let kind = Kind::made_by(&update);
        let done = self.carry_out_with(update, None, direct);
        if let (Ok(Some(handle)), Some(changes)) = (&done, &mut self.changes) {
            let cell = || Cell::Entry((*handle).into());
            let counter =
                direct.counter.map(|(counter, value)| Update::WriteCounter { counter, cell: cell(), value });
            let meter = direct.meter.map(|(meter, rates)| Update::SetMeter {
                meter,
                cell: cell(),
                rates: Some(rates),
            });
            for update in counter.iter().chain(&meter) {
                changes.add(&self.control.schema, update, &self.made);
                changes.done(None);
            }
        }
        self.made.push(kind, done.as_ref().ok().copied().flatten());
        done
    }

    /// Counts an update that was refused earlier.
    fn skip(&mut self) {
        self.made.push(None, None);
    }

    /// Refuses more updates if memory for the announced ones is short. Further updates are checked in growing steps.
    fn check_memory(&mut self) -> Result<()> {
        let done = self.made.handles().len();
        if done >= self.checked {
            let next = self.expected.saturating_sub(done).max(done).max(1);
            self.memory = None;
            self.memory = Some(claim_for_updates(next, self.control.entries())?);
            self.checked = done.saturating_add(next);
        }
        Ok(())
    }

    /// A mark for [`Self::take_back_to`].
    pub fn mark(&self) -> Mark {
        Mark {
            undo: self.log.as_ref().map_or(0, Vec::len),
            changes: self.changes.as_ref().map(Changes::mark),
        }
    }

    /// Undoes the changes since a mark because of an error. Returns that error, with the changes that could not be undone.
    pub fn take_back_to(&mut self, mark: Mark, error: ControlError) -> ControlError {
        if let (Some(changes), Some(mark)) = (&mut self.changes, mark.changes) {
            changes.back_to(mark);
        }
        match &mut self.log {
            Some(log) if log.len() > mark.undo => {
                let since = log.split_off(mark.undo);
                self.undo_cells -= since.iter().map(Undo::cells).sum::<usize>();
                self.control.without(since, error)
            }
            _ => error,
        }
    }

    /// Keeps the changes so far, whatever happens to later ones. Earlier marks become void.
    pub fn settle(&mut self) {
        if let Some(log) = &mut self.log {
            self.settled |= !log.is_empty();
            log.clear();
            self.undo_cells = 0;
        }
    }

    fn carry_out(&mut self, update: Update, at: Option<u32>) -> Result<Option<u32>> {
        self.carry_out_with(update, at, &Direct::default())
    }

    fn carry_out_with(&mut self, update: Update, at: Option<u32>, direct: &Direct) -> Result<Option<u32>> {
        self.check_memory()?;
        let Batch { control, log, made, changes, is_owners, undo_cells, .. } = self;
        if update.is_of_arrays() && *undo_cells > UNDO_CELLS_MAX {
            let why = format!(
                "the batch holds the old values of more than {UNDO_CELLS_MAX} cells: send updates of whole arrays in smaller batches"
            );
            return Err(ControlError::limit(why));
        }
        let steps = log.as_ref().map_or(0, Vec::len);
        // The journal uses the names of the schema.
        control.check(&update)?;
        let mut note_after = None;
        if !*is_owners {
            control.check_owned(&update)?;
            note_after = control.note_after(&update, made);
            if let Some(note) = &note_after {
                control.check(note)?;
            }
        }
        let _memory = claim_for_places(&update)?;
        if let Some(changes) = changes {
            changes.add(&control.schema, &update, made);
        }
        let mut log = log.as_mut();
        let done = match (update, &mut log) {
            (Update::Insert { table, key, priority, act }, log) if *direct != Direct::default() => {
                guarded(|| {
                    let entry = Entry { key, priority, action: control.act(table, act, made)? };
                    control.add(table, entry, direct, log.as_deref_mut()).map(|handle| Some(handle.0))
                })
            }
            (update, Some(log)) => guarded(|| control.apply(update, at, made, Some(log))),
            (update, None) if at.is_some() => guarded(|| control.apply(update, at, made, None)),
            (update, None) => control.perform(update, made),
        };
        let done = match (done, &mut log) {
            // An update that makes several changes may fail halfway.
            (Err(error), Some(log)) if log.len() > steps => Err(control.without(log.split_off(steps), error)),
            (done, _) => done,
        };
        if let Some(log) = &log {
            *undo_cells += log[steps..].iter().map(Undo::cells).sum::<usize>();
        }
        match (&mut *changes, &done) {
            (Some(changes), Ok(made)) => changes.done(*made),
            (Some(changes), Err(_)) => changes.forget(),
            (None, _) => {}
        }
        if let (Ok(_), Some(update)) = (&done, note_after) {
            if let Some(changes) = changes {
                changes.add(&control.schema, &update, made);
                changes.done(None);
            }
            // It cannot fail: the object is there.
            control.apply(update, None, made, log)?;
        }
        done
    }

    /// Ends the batch and keeps its changes.
    ///
    /// # Errors
    ///
    /// Memory is short. The changes are undone, if the batch can be undone.
    pub fn commit(mut self) -> Result<()> {
        match self.publish() {
            Ok(_) => Ok(()),
            Err(error) => Err(self.take_back(error)),
        }
    }

    /// Like [`Self::commit`], but leaves the batch open; returns the changes for the journal.
    pub(crate) fn publish(&mut self) -> Result<Option<Changes>> {
        let publish = || {
            self.control.publish();
            Ok(())
        };
        match guarded(publish) {
            // Without a log, and where changes were settled, the changes are in effect anyway.
            Err(error) if self.log.is_some() && !self.settled => Err(error),
            _ => Ok(self.keep()),
        }
    }

    /// Keeps the changes: they can no longer be undone. Returns the changes for the journal.
    fn keep(&mut self) -> Option<Changes> {
        self.log = None;
        self.changes.take()
    }

    /// Undoes all changes. The error lists those that could not be undone.
    ///
    /// # Errors
    ///
    /// Some changes could not be undone: packet workers are slow, or memory is short. The error has their number.
    pub fn undo(mut self) -> Result<()> {
        self.changes = None;
        let log = self.log.take().unwrap_or_default();
        guarded(|| self.control.take_back(log))
    }

    /// Undoes all changes because of an error. Returns that error, with the changes that could not be undone.
    pub fn take_back(mut self, error: ControlError) -> ControlError {
        self.changes = None;
        self.control.without(self.log.take().unwrap_or_default(), error)
    }
}

impl Drop for Batch {
    /// Undoes all changes if the batch has not ended: none of them is in the journal.
    fn drop(&mut self) {
        if let Some(log) = self.log.take().filter(|log| !log.is_empty()) {
            let _ = guarded(|| self.control.take_back(log));
        }
    }
}

impl Control {
    /// Applies a batch of updates in order. Packets see one update after the other.
    pub fn write(&self, batch: Vec<Update>, atomicity: Atomicity) -> Written {
        let mut presence = Presence::new(&|| false);
        let updates = batch.into_iter().map(Ok).collect();
        self.write_with(updates, atomicity, None, |change| change(), &mut presence).0
    }

    /// Like [`Self::write`], for updates of which some may already be errors. `changes`, if they are kept, are returned with the
    /// applied updates. `hold` calls a function between packets. If the client leaves, the rest is refused.
    pub(crate) fn write_with(
        &self,
        updates: Vec<Result<Update>>,
        atomicity: Atomicity,
        changes: Option<Changes>,
        hold: impl FnMut(&mut dyn FnMut()),
        presence: &mut Presence<'_>,
    ) -> (Written, Option<Changes>) {
        let total = updates.len();
        let mut results = Vec::with_capacity(total);
        let mut batch = Batch::new(self, atomicity, total, changes);
        let held_cells =
            |update: &Result<Update>| update.as_ref().map_or(0, |update| self.schema.held_cells(update));
        let done = each_held(updates.into_iter(), held_cells, hold, |update| {
            let wanted = update.and_then(|update| presence.check(Some(&update)).map(|()| update));
            let done = match wanted {
                Ok(update) => batch.write(update),
                Err(error) => {
                    batch.skip();
                    Err(error)
                }
            };
            match done {
                Err(error) if atomicity == Atomicity::AllOrNothing => return Err(error),
                done => results.push(done),
            }
            Ok(())
        });
        if let Err(error) = done {
            return (Written::aborted(total, results.len(), batch.take_back(error)), None);
        }
        // One update is already published.
        let published = if total == 1 { Ok(batch.keep()) } else { batch.publish() };
        match published {
            Ok(changes) => (Written { results, in_effect: true }, changes),
            Err(error) => {
                let last = total.saturating_sub(1);
                (Written::aborted(total, last, batch.take_back(error)), None)
            }
        }
    }

    /// Begins a batch of about `updates` updates that arrive one after the other: all or nothing.
    pub fn batch(&self, updates: usize) -> Batch {
        Batch::new(self, Atomicity::AllOrNothing, updates, None)
    }

    /// Applies an update that the schema allows, or leaves the switch unchanged. `made` has the objects that earlier updates of the
    /// batch created.
    pub(crate) fn perform(&self, update: Update, made: &Made) -> Result<Option<u32>> {
        if update != Update::Reset {
            return guarded(|| self.apply(update, None, made, None));
        }
        // This update makes many changes, each of which can fail.
        let mut log = Vec::new();
        guarded(|| self.apply(update, None, made, Some(&mut log))).map_err(|error| self.without(log, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4jet_ir::InstanceId;

    #[test]
    fn old_values_of_cells_are_counted_and_bounded() {
        let program = p4jet_ir::text::parse(include_str!("../../tests/common/sample.ir")).unwrap();
        let instance =
            program.instances.iter().position(|instance| instance.name == "ingress.cells").unwrap();
        let register = InstanceId(instance as u32);
        let control = Control::new(p4jet_dataplane::Switch::new(program).unwrap());
        let mut batch = control.batch(2);
        for index in 0..3 {
            batch.write(Update::WriteRegister { register, index, value: 7u32.into() }).unwrap();
        }
        assert_eq!(batch.undo_cells, 0);
        batch.write(Update::ResetRegister(register)).unwrap();
        assert_eq!(batch.undo_cells, 3);
        batch.undo_cells = UNDO_CELLS_MAX;
        batch.write(Update::ResetRegister(register)).unwrap();
        batch.undo_cells += 1;
        let error = batch.write(Update::ResetRegister(register)).unwrap_err();
        assert!(error.message.contains("more than 16777216 cells"), "{error}");
        // Other updates are not affected, and what is undone no longer counts.
        batch.write(Update::WriteRegister { register, index: 0, value: 7u32.into() }).unwrap();
        batch.settle();
        let mark = batch.mark();
        batch.write(Update::ResetRegister(register)).unwrap();
        assert_eq!(batch.undo_cells, 1);
        batch.take_back_to(mark, ControlError::new("a later update was refused"));
        assert_eq!(batch.undo_cells, 0);
    }
}
