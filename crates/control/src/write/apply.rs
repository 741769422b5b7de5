//! Applies updates.

use super::sessions::{no_session, session_update};
use super::undo::{Undo, UndoOther};
use crate::control::Control;
use crate::describe::instances;
use crate::error::{ControlError, Result, Subject, taken};
use crate::guard::{HEAP_BLOCK_BYTES, claim_for_undo, collect_claimed, guarded};
use crate::made::{Kind, Made};
use crate::schema::{ObjectKind, check_entry_open, tables};
use crate::update::{Act, Cell, CloneDestination, DEFAULT_CELL, Direct, Update};
use num_bigint::BigUint;
use p4jet_externs::{Multicast, Pages, Replica, Session};
use p4jet_ir::InstanceKind;
use p4jet_tables::{Action, Entry};
use std::collections::BTreeSet;

/// Memory to undo the deletion of a member, a group, a multicast node or a clone session.
const UNDO_BYTES_PER_OBJECT: usize = 512;

/// An action, member or group in the form of updates.
fn act_of(action: &Action) -> Act {
    match (action.as_member(), action.as_group()) {
        (Some(member), _) => Act::Member(member.into()),
        (_, Some(group)) => Act::Group(group.into()),
        _ => Act::Action(action.clone()),
    }
}

impl Control {
    /// Applies an update that the schema allows, and records how to undo it. Returns the handle of the created object.
    /// With `at`, the object gets that handle, which it had before.
    pub(crate) fn apply(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        mut log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let notes = self.take_notes(&update, made);
        if notes.is_empty() {
            return self.apply_change(update, at, made, log);
        }
        let before = log.as_ref().map_or(0, |log| log.len());
        let done = guarded(|| self.apply_change(update, at, made, log.as_deref_mut()));
        match (&done, log) {
            // The notes come back last, because undoing also makes notes void. A change that failed halfway is undone, too.
            (_, Some(log)) if done.is_ok() || log.len() > before => {
                log.insert(before, UndoOther::Notes(notes).into());
            }
            (Ok(_), _) => {}
            (Err(_), _) => self.put_notes(notes),
        }
        done
    }

    fn apply_change(
        &self,
        update: Update,
        at: Option<u32>,
        made: &Made,
        mut log: Option<&mut Vec<Undo>>,
    ) -> Result<Option<u32>> {
        let mut undo_by = |undo: &dyn Fn() -> Undo| {
            if let Some(log) = &mut log {
                log.push(undo());
            }
        };
        match update {
            Update::Insert { table, key, priority, act } => {
                let entry = Entry { key, priority, action: self.act(table, act, made)? };
                return match at {
                    None => self.add(table, entry, &Direct::default(), log).map(|handle| Some(handle.0)),
                    Some(handle) => self.add_at(table, handle, entry, log).map(|()| Some(handle)),
                };
            }
            Update::Modify { table, entry, act } => {
                let handle = self.entry(table, &entry, made)?;
                check_entry_open(&self.program().tables[table.index()], handle.0)?;
                let action = self.act(table, act, made)?;
                let mut t = self.switch.table(table);
                let old = t.get(handle).map(|e| e.action);
                t.modify(handle, action).map_err(self.refused(table))?;
                if let Some(old) = old {
                    undo_by(&|| Update::Modify { table, entry: handle.0.into(), act: act_of(&old) }.into());
                }
            }
            Update::Delete { table, entry } => {
                let handle = self.entry(table, &entry, made)?;
                check_entry_open(&self.program().tables[table.index()], handle.0)?;
                self.delete(table, handle, log).map_err(self.refused(table))?;
            }
            Update::Clear(id) | Update::ClearValueSet(id) => {
                let bytes = log.as_ref().map_or(0, |_| self.undo_bytes_of_entries(id));
                let _memory = claim_for_undo(bytes)?;
                self.clear(id, log)?;
            }
            Update::SetDefault { table, act } => {
                let action = self.act(table, act, made)?;
                let mut t = self.switch.table(table);
                let (was_set, old) = (t.is_default_set(), t.default_action().clone());
                t.set_default(action).map_err(self.refused(table))?;
                undo_by(&|| match was_set {
                    true => Update::SetDefault { table, act: act_of(&old) }.into(),
                    false => Update::ResetDefault(table).into(),
                });
            }
            Update::ResetDefault(id) => {
                let mut t = self.switch.table(id);
                let (was_set, old) = (t.is_default_set(), t.default_action().clone());
                t.reset_default().map_err(self.refused(id))?;
                if was_set {
                    undo_by(&|| Update::SetDefault { table: id, act: act_of(&old) }.into());
                }
            }
            Update::SetTimeout { table, entry, timeout_ms } => {
                let handle = self.entry(table, &entry, made)?;
                let now_us = self.switch.now_us();
                let mut t = self.switch.table(table);
                let old = t.saved_timeout(handle);
                t.set_timeout(handle, timeout_ms, now_us).map_err(self.refused(table))?;
                if let Some(old) = old {
                    undo_by(&|| UndoOther::Timeout(table, handle, old, now_us).into());
                }
            }
            Update::CreateMember { profile, action } => {
                let (of, refused) = self.profile_of(profile)?;
                let handle = match at {
                    None => of.create_member(action),
                    Some(handle) if of.member(handle).is_some() => {
                        return Err(taken("member", handle).entity(self.schema.instance_name(profile)));
                    }
                    Some(handle) => of.restore_member(handle, action),
                };
                let handle = handle.map_err(refused)?;
                undo_by(&|| Update::DeleteMember { profile, member: handle.into() }.into());
                return Ok(Some(handle));
            }
            Update::ModifyMember { profile, member, action } => {
                let (of, refused) = self.profile_of(profile)?;
                let handle = made.handle(member, Kind::Member(profile), self.program())?;
                let old = of.modify_member(handle, action).map_err(refused)?;
                undo_by(&|| {
                    Update::ModifyMember { profile, member: handle.into(), action: old.clone() }.into()
                });
            }
            Update::DeleteMember { profile, member } => {
                let (of, refused) = self.profile_of(profile)?;
                let handle = made.handle(member, Kind::Member(profile), self.program())?;
                let old = of.delete_member(handle).map_err(refused)?;
                undo_by(&|| {
                    let create = Update::CreateMember { profile, action: old.clone() };
                    UndoOther::Updates(vec![(create, Some(handle))]).into()
                });
            }
            Update::CreateGroup { profile } => {
                let (of, refused) = self.profile_of(profile)?;
                let handle = match at {
                    None => of.create_group(),
                    Some(handle) if of.group(handle).is_some() => {
                        return Err(taken("group", handle).entity(self.schema.instance_name(profile)));
                    }
                    Some(handle) => of.restore_group(handle),
                };
                let handle = handle.map_err(refused)?;
                undo_by(&|| Update::DeleteGroup { profile, group: handle.into() }.into());
                return Ok(Some(handle));
            }
            Update::DeleteGroup { profile, group } => {
                let (of, refused) = self.profile_of(profile)?;
                let handle = made.handle(group, Kind::Group(profile), self.program())?;
                let (members, weighted) = of.group_places(handle).unwrap_or_default();
                of.delete_group(handle).map_err(refused)?;
                // The last one is applied first.
                undo_by(&|| UndoOther::GroupMembers(profile, handle, members.clone(), weighted).into());
                undo_by(&|| {
                    let create = (Update::CreateGroup { profile }, Some(handle));
                    UndoOther::Updates(vec![create]).into()
                });
            }
            Update::SetGroup { profile, group, members } => {
                let (of, refused) = self.profile_of(profile)?;
                let group = made.handle(group, Kind::Group(profile), self.program())?;
                let members: Vec<_> = members.iter().map(|share| (share.member, share.weight)).collect();
                let (old, weighted) = of.set_group(group, &members, true).map_err(refused)?;
                undo_by(&|| UndoOther::GroupMembers(profile, group, old.clone(), weighted).into());
            }
            Update::Note { of, note: text } => {
                if text.is_some() && !self.is_there(&of) {
                    let error = ControlError::new("the object of the note does not exist");
                    return Err(self.schema.of_noted(error, &of).field("of"));
                }
                let old = self.set_note(of.clone(), text);
                undo_by(&|| Update::Note { of: of.clone(), note: old.clone() }.into());
            }
            Update::AddToGroup { profile, group, member } => {
                let (of, refused) = self.profile_of(profile)?;
                let group = made.handle(group, Kind::Group(profile), self.program())?;
                let member = made.handle(member, Kind::Member(profile), self.program())?;
                of.add_to_group(member, group).map_err(refused)?;
                undo_by(&|| {
                    Update::RemoveFromGroup { profile, group: group.into(), member: member.into() }.into()
                });
            }
            Update::RemoveFromGroup { profile, group, member } => {
                let (of, refused) = self.profile_of(profile)?;
                let group = made.handle(group, Kind::Group(profile), self.program())?;
                let member = made.handle(member, Kind::Member(profile), self.program())?;
                let places = of.places_in(member, group);
                of.remove_from_group(member, group).map_err(refused)?;
                undo_by(&|| match places {
                    Some(places) => UndoOther::MemberOfWeighted(profile, group, (member, places)).into(),
                    None => Update::AddToGroup { profile, group: group.into(), member: member.into() }.into(),
                });
            }
            Update::WriteCounter { counter, cell, value } => {
                let index = self.cell(counter, &cell, made)?;
                let old = self.counter_value(counter, index)?;
                self.write_counter(counter, index, value)?;
                undo_by(&|| Update::WriteCounter { counter, cell: Cell::Index(index), value: old }.into());
            }
            Update::ResetCounter(id) => {
                let old = match log {
                    None => Vec::new(),
                    Some(_) => collect_claimed(self.counter_values(id), 0)?,
                };
                self.switch.state().counter_reset(id.0).map_err(self.no_cell(Subject::Counter, id))?;
                if let Some(log) = log {
                    log.push(UndoOther::Counters(id, old).into());
                }
            }
            Update::WriteRegister { register, index, value } => {
                let old = self.register_value(register, index)?;
                self.write_register(register, index, &value)?;
                undo_by(&|| Update::WriteRegister { register, index, value: old.clone() }.into());
            }
            Update::ResetRegister(id) => {
                let old: Vec<(u32, BigUint)> = match log {
                    None => Vec::new(),
                    // The other cells are 0 afterwards, too.
                    Some(_) => {
                        let heap_bytes =
                            HEAP_BLOCK_BYTES + self.schema.register_cells(id)?.width as usize / 8;
                        collect_claimed(self.switch.state().register_values(id.0), heap_bytes)?
                    }
                };
                self.switch.state().register_reset(id.0).map_err(self.no_cell(Subject::Register, id))?;
                if let Some(log) = log {
                    log.push(UndoOther::Registers(id, old).into());
                }
            }
            Update::SetMeter { meter, cell, rates } => {
                let index = self.cell(meter, &cell, made)?;
                let old = self.meter_rates(meter, index)?;
                self.set_meter(meter, index, rates)?;
                undo_by(&|| Update::SetMeter { meter, cell: Cell::Index(index), rates: old }.into());
            }
            Update::SetMeterArray { meter, rates } => {
                let old = match log {
                    None => Vec::new(),
                    Some(_) => collect_claimed(self.meter_values(meter), 0)?,
                };
                self.set_meters(meter, rates)?;
                if let Some(log) = log {
                    log.push(UndoOther::Meters(meter, old).into());
                }
            }
            Update::SetCrc { crc, params } => {
                let name = self.schema.names(ObjectKind::Crc).name(crc);
                let old = self.switch.state().crc(name).unwrap_or(self.usual_crc(crc));
                self.switch.state().set_crc(name, params);
                undo_by(&|| Update::SetCrc { crc, params: old }.into());
            }
            Update::AddToValueSet { set, key } => {
                let mut table = self.switch.table(set);
                // As in bmv2, adding an existing value is no error.
                if table.find(&key, 0).is_none() {
                    let action = Action { action: 0, data: Vec::new() };
                    let generation = table.next_generation();
                    let inserted = table.insert(Entry { key, priority: 0, action });
                    let handle = inserted.map_err(self.refused(set))?;
                    if let Some(log) = log {
                        log.push(Undo::Insert(set, handle, generation));
                    }
                }
            }
            Update::RemoveFromValueSet { set, key } => {
                let found = self.switch.table(set).find(&key, 0);
                // As in bmv2, removing a missing value is no error.
                if let Some(handle) = found {
                    self.delete(set, handle, log).map_err(self.refused(set))?;
                }
            }
            Update::SetSession { session, to, bytes_max } => {
                let new = match to {
                    CloneDestination::Port(port) => {
                        let replicas = vec![Replica { port, replication_id: 0 }];
                        Session { replicas, bytes_max, ..Session::default() }
                    }
                    CloneDestination::Group(group) => {
                        Session { group: Some(group), bytes_max, ..Session::default() }
                    }
                };
                let old = self.set_session(session, Some(new));
                undo_by(&|| session_update(session, old.as_deref()).into());
            }
            Update::SetReplicas { session, replicas, class_of_service, bytes_max } => {
                let new = Session { replicas, group: None, class_of_service, bytes_max };
                let old = self.set_session(session, Some(new));
                undo_by(&|| session_update(session, old.as_deref()).into());
            }
            Update::DeleteSession(session) => {
                let old = self.set_session(session, None);
                if old.is_none() {
                    return Err(no_session(session));
                }
                undo_by(&|| session_update(session, old.as_deref()).into());
            }
            Update::Queue(update) => {
                let mut done = Ok(());
                self.switch.queues().configure(|config| {
                    done = update.check_queue(config.queues_per_port);
                    if done.is_err() {
                        return;
                    }
                    undo_by(&|| match update.port() {
                        Some(port) => {
                            let settings = config.ports.get(&port).cloned().map(Box::new);
                            UndoOther::Port(port, settings, config.wanted).into()
                        }
                        None => UndoOther::Queues(Box::new(config.clone())).into(),
                    });
                    update.apply(config);
                });
                done?;
            }
            Update::Reset => self.reset_state(log)?,
            Update::CreateMulticastGroup(_)
            | Update::DestroyMulticastGroup(_)
            | Update::SetMulticastGroup { .. }
            | Update::CreateNode { .. }
            | Update::UpdateNode { .. }
            | Update::Associate { .. }
            | Update::Dissociate { .. }
            | Update::DestroyNode(_)
            | Update::SetLag { .. } => return self.change_multicast(update, at, made, log),
        }
        Ok(None)
    }

    /// Removes all groups, nodes, link aggregation groups and sessions.
    pub(crate) fn clear_replication(&self, mut log: Option<&mut Vec<Undo>>) {
        let mut undo_by = |undo: Undo| {
            if let Some(log) = &mut log {
                log.push(undo);
            }
        };
        let state = self.switch.state();
        undo_by(UndoOther::Multicast(state.multicast()).into());
        self.set_multicast(Multicast::default());
        for (number, session) in state.destinations().sessions.iter() {
            undo_by(session_update(number, Some(session)).into());
        }
        state.change_destinations(|destinations| destinations.sessions = Pages::default());
    }

    /// Resets the switch: the effects of updates, registers and counters. Const entries, the constants of custom CRCs and the
    /// settings of output queues remain.
    fn reset_state(&self, mut log: Option<&mut Vec<Undo>>) -> Result<()> {
        // Before anything changes: cells come first, because putting them back takes no memory.
        let memory = claim_for_undo(log.as_ref().map_or(0, |_| self.undo_bytes_of_objects()))?;
        let mut change = |update| self.apply(update, None, &Made::default(), log.as_deref_mut()).map(drop);
        let program = self.program();
        for (id, instance) in instances(program) {
            match instance.kind {
                InstanceKind::Register { .. } => change(Update::ResetRegister(id))?,
                InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. } => {
                    change(Update::ResetCounter(id))?;
                }
                InstanceKind::Meter { .. } => change(Update::SetMeterArray { meter: id, rates: None })?,
                InstanceKind::DirectMeter { .. } => {
                    change(Update::SetMeterArray { meter: id, rates: None })?;
                    change(Update::SetMeter { meter: id, cell: Cell::Index(DEFAULT_CELL), rates: None })?;
                }
                InstanceKind::ActionProfile { .. } | InstanceKind::Digest { .. } => {}
            }
        }
        // Each table claims its own.
        drop(memory);
        for (id, table) in tables(program) {
            if table.hidden {
                change(Update::ClearValueSet(id))?;
                continue;
            }
            if !table.const_entries {
                change(Update::Clear(id))?;
            }
            change(Update::ResetDefault(id))?;
        }
        for (id, table) in tables(program) {
            let (Some(profile), Ok(of)) = (table.profile, self.profile(id)) else { continue };
            for (group, _) in of.groups() {
                change(Update::DeleteGroup { profile, group: group.into() })?;
            }
            for (member, _) in of.members() {
                change(Update::DeleteMember { profile, member: member.into() })?;
            }
        }
        self.clear_replication(log);
        Ok(())
    }

    /// Memory to undo a reset, apart from cells.
    fn undo_bytes_of_objects(&self) -> usize {
        let program = self.program();
        let mut bytes = 0usize;
        for (id, table) in tables(program) {
            bytes = bytes.saturating_add(self.undo_bytes_of_entries(id));
            if let (Some(_), Ok(of)) = (table.profile, self.profile(id)) {
                bytes = bytes.saturating_add(of.objects_count() * UNDO_BYTES_PER_OBJECT);
            }
        }
        let multicast = self.switch.state().with_multicast(|m| {
            let sets = m.nodes().values().map(|node| node.ports.len() + node.lags.len()).sum::<usize>()
                + m.lags().values().map(BTreeSet::len).sum::<usize>();
            (2 * m.nodes().len() + m.groups().len() + m.lags().len()) * UNDO_BYTES_PER_OBJECT + sets * 16
        });
        let sessions = self.switch.state().destinations().sessions.len() * UNDO_BYTES_PER_OBJECT;
        bytes.saturating_add(multicast).saturating_add(sessions)
    }
}
