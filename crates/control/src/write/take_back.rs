//! Undoes changes.

use super::undo::{Retries, Undo, UndoOther, with_rest};
use crate::control::Control;
use crate::error::{ControlError, Result};
use crate::guard::guarded;
use crate::made::Made;

impl Control {
    /// Undoes changes, the last one first. Changes that others made meanwhile remain. A table may refuse because packet
    /// workers are slow, or because memory for an entry is short: then the error states how many changes remain.
    pub(crate) fn take_back(&self, log: Vec<Undo>) -> Result<()> {
        let mut retries = Retries::begin();
        for undo in log.into_iter().rev() {
            let other = match undo {
                Undo::Insert(table, handle, generation) => {
                    let refused = self.refused(table);
                    retries
                        .run(|| self.switch.table(table).undo_insert(handle, generation).map_err(&refused));
                    continue;
                }
                Undo::Other(other) => *other,
            };
            match other {
                UndoOther::Updates(updates) => {
                    for (update, handle) in updates {
                        retries.run(|| self.apply(update.clone(), handle, &Made::default(), None).map(drop));
                    }
                }
                UndoOther::Entries(table, removed, generations) => {
                    self.put_entries_back(table, removed, generations, &mut retries);
                }
                UndoOther::GenerationMin(table, generation) => {
                    self.switch.table(table).set_generation_min(generation);
                }
                UndoOther::Timeout(table, handle, timeout, set_us) => {
                    self.switch.table(table).restore_timeout(handle, timeout, Some(set_us));
                }
                UndoOther::Counters(counter, values) => {
                    let _ = self.switch.state().counter_reset(counter.0);
                    for (index, value) in values {
                        let _ = self.write_counter(counter, index, value);
                    }
                }
                UndoOther::Registers(register, values) => {
                    let _ = self.switch.state().register_reset(register.0);
                    for (cell, value) in values {
                        let _ = self.write_register(register, cell, &value);
                    }
                }
                UndoOther::Meters(meter, values) => {
                    let _ = self.set_meters(meter, None);
                    for (index, rates) in values {
                        let _ = self.set_meter(meter, index, Some(rates));
                    }
                }
                UndoOther::GroupMembers(profile, group, members, weighted) => {
                    let again = || {
                        let (of, refused) = self.profile_of(profile)?;
                        of.set_group(group, &members, weighted).map_err(refused)
                    };
                    retries.run(|| again().map(drop));
                }
                UndoOther::MemberOfWeighted(profile, group, member) => {
                    let again = || {
                        let (of, refused) = self.profile_of(profile)?;
                        let (mut members, weighted) = of.group_places(group).unwrap_or_default();
                        members.push(member);
                        of.set_group(group, &members, weighted).map_err(refused)
                    };
                    retries.run(|| again().map(drop));
                }
                UndoOther::Notes(notes) => self.put_notes(notes),
                UndoOther::Port(port, settings, wanted) => self.switch.queues().configure(|config| {
                    match settings {
                        Some(settings) => drop(config.ports.insert(port, *settings)),
                        None => drop(config.ports.remove(&port)),
                    }
                    config.wanted = wanted;
                }),
                UndoOther::Queues(old) => self.switch.queues().configure(|config| *config = *old),
                UndoOther::Group(..)
                | UndoOther::InGroup(..)
                | UndoOther::Node(..)
                | UndoOther::MulticastGroup(..)
                | UndoOther::NoLag(_)
                | UndoOther::Multicast(_) => self.undo_multicast(other),
            }
        }
        retries.end()
    }

    /// Undoes the changes before an error. Returns the error, with the changes that remain.
    pub(crate) fn without(&self, log: Vec<Undo>, error: ControlError) -> ControlError {
        with_rest(error, guarded(|| self.take_back(log)))
    }
}
