//! Hot reload: another program replaces that of a switch and keeps its entries and state.
//!
//! The new program shares tables and extern instances with unchanged name and shape, so nothing is copied and no
//! count is lost while some workers still run the old code. If only the actions, the program's own entries or the
//! size of a table changed, its entries are inserted again, and those of the new program that the old one also has are
//! changed or deleted as they were. So are the members and groups of an action profile whose size, kind or actions changed.
//! Everything else starts empty, and [`Carried`] lists it.

use crate::program_error::ProgramError;
use crate::switch::{Code, Switch};
use p4jet_ir as ir;
use p4jet_jit::{Cancel, Compiled};
use p4jet_tables::{Action, Entry, EntryHandle, Table};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

/// The result of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Names of tables and extern instances that are unchanged.
    pub kept: Vec<String>,
    /// Entries that were inserted again into rebuilt tables.
    pub entries_copied: usize,
    /// Everything that was not carried over, with the reason, one item per line.
    pub lost: Vec<String>,
}

/// A program that will replace that of a switch, with its machine code if that is compiled already.
#[derive(Clone)]
pub struct Successor {
    program: ir::Program,
    counted: bool,
    /// See [`Successor::keep_all`].
    keeps_all: bool,
    /// See [`Switch::set_lowered`].
    lowered: Option<Arc<ir::Program>>,
    code: Option<Code>,
    /// The switch that it will replace.
    of: Weak<Switch>,
}

impl Successor {
    /// Creates a successor of `switch`. `counted` turns the counting of lookups and drops on or off. If there is a
    /// `cancel`, compiles the machine code now.
    pub(crate) fn new(
        switch: &Arc<Switch>,
        program: ir::Program,
        counted: bool,
        cancel: Option<&Cancel>,
    ) -> Result<Successor, ProgramError> {
        let code = cancel.map(|cancel| switch.code_for(&program, counted, cancel)).transpose()?;
        Ok(Successor { program, counted, keeps_all: false, lowered: None, code, of: Arc::downgrade(switch) })
    }

    /// The program replaces that of the switch only if nothing is lost.
    pub fn keep_all(&mut self) {
        self.keeps_all = true;
    }

    /// Sets the program before the passes, see [`Switch::set_lowered`].
    pub fn set_lowered(&mut self, lowered: Arc<ir::Program>) {
        self.lowered = Some(lowered);
    }

    /// True if it was created for this switch.
    pub(crate) fn is_of(&self, switch: &Arc<Switch>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(switch))
    }

    /// Returns its machine code, if that is compiled already.
    pub fn code(&self) -> Option<&Arc<Compiled>> {
        self.code.as_ref().map(Code::compiled)
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.counted
    }

    /// Returns its program, and the program before the passes.
    pub(crate) fn into_programs(self) -> (ir::Program, Option<Arc<ir::Program>>) {
        (self.program, self.lowered)
    }
}

/// One program's side of a comparison.
#[derive(Clone, Copy)]
struct Side<'a>(&'a ir::Program);

impl<'a> Side<'a> {
    /// Returns the actions of a table: name, widths of the parameters, table-only and default-only.
    fn actions(self, table: &'a ir::Table) -> Vec<(&'a str, Vec<u32>, bool, bool)> {
        let action = |listed: &ir::TableAction| {
            let action = &self.0.actions[listed.action.index()];
            let widths = action.params.iter().map(|field| self.0.width(*field)).collect();
            (action.control_name.as_str(), widths, listed.table_only, listed.default_only)
        };
        table.actions.iter().map(action).collect()
    }

    fn profile(self, table: &'a ir::Table) -> Option<(&'a str, &'a ir::InstanceKind)> {
        let instance = &self.0.instances[table.profile?.index()];
        Some((&instance.name, &instance.kind))
    }

    fn direct(self, id: ir::TableId) -> impl Iterator<Item = (ir::InstanceId, &'a ir::Instance)> {
        self.0.instances.iter().zip(0..).map(|(instance, i)| (ir::InstanceId(i), instance)).filter(
            move |(_, instance)| match instance.kind {
                ir::InstanceKind::DirectCounter { table, .. }
                | ir::InstanceKind::DirectMeter { table, .. } => table == id,
                _ => false,
            },
        )
    }
}

/// Iterates over the program's own entries of a table, without their source places.
fn given(table: &ir::Table) -> impl Iterator<Item = (&[ir::KeyMatch], u32, bool, &ir::ActionCall)> {
    table.entries.iter().map(|e| (e.key.as_slice(), e.priority, e.is_const, &e.action))
}

/// True if the tables do not differ for workers and control plane.
fn same_shape(old: Side<'_>, o: &ir::Table, new: Side<'_>, n: &ir::Table) -> bool {
    o.keys == n.keys
        && old.actions(o) == new.actions(n)
        && o.default == n.default
        && o.const_default == n.const_default
        && o.size == n.size
        && o.const_entries == n.const_entries
        && o.idle_timeout == n.idle_timeout
        && o.hidden == n.hidden
        && given(o).eq(given(n))
        && old.profile(o) == new.profile(n)
}

/// Returns for each table of the new program the unchanged table of the old program, if any.
fn same_tables(old: Side<'_>, new: Side<'_>) -> Vec<Option<ir::TableId>> {
    let by_name: HashMap<&str, ir::TableId> =
        old.0.tables.iter().zip(0..).map(|(t, i)| (t.name.as_str(), ir::TableId(i))).collect();
    let mut same: Vec<Option<ir::TableId>> = (new.0.tables.iter().zip(0..))
        .map(|(n, i)| {
            let id = *by_name.get(n.name.as_str())?;
            let rows = |side: Side<'_>, id| side.direct(id).next().is_some();
            let shape = same_shape(old, &old.0.tables[id.index()], new, n);
            (shape && rows(old, id) == rows(new, ir::TableId(i))).then_some(id)
        })
        .collect();
    // The tables of an action profile share its members: either all of them are kept, or none.
    let profile = |side: Side<'_>, t: &ir::Table| side.profile(t).map(|(name, _)| name.to_string());
    for n in 0..same.len() {
        let Some(name) = profile(new, &new.0.tables[n]) else { continue };
        let whole = |side: Side<'_>| {
            side.0.tables.iter().filter(|t| profile(side, t).as_ref() == Some(&name)).count()
        };
        let kept = (0..same.len())
            .filter(|i| same[*i].is_some() && profile(new, &new.0.tables[*i]).as_ref() == Some(&name))
            .count();
        if kept != whole(new) || kept != whole(old) {
            same[n] = None;
        }
    }
    same
}

impl Switch {
    /// Creates a switch with another program that replaces this one. Both share the unchanged state, so workers may run
    /// either program until the last has switched. The control plane must not change this switch after the call.
    pub fn succeed(self: &Arc<Self>, program: ir::Program) -> Result<(Arc<Switch>, Carried), ProgramError> {
        self.succeed_by(Successor::new(self, program, self.is_counted(), None)?)
    }

    pub(crate) fn succeed_by(&self, next: Successor) -> Result<(Arc<Switch>, Carried), ProgramError> {
        let Successor { program, counted, keeps_all, lowered, code, .. } = next;
        let (old, new) = (Side(self.program()), Side(&program));
        let same = same_tables(old, new);
        let mut carried = Carried::default();
        let mut tables: Vec<Arc<Mutex<Table>>> = p4jet_interp::build_tables(&program)?
            .into_iter()
            .map(|table| Arc::new(Mutex::new(table)))
            .collect();
        for (table, same) in tables.iter_mut().zip(&same) {
            if let Some(id) = same {
                *table = Arc::clone(&self.tables[id.index()]);
            }
        }
        let same_instance = self.same_instances(new, &same, &mut carried);
        let state = p4jet_interp::succeeding_state(&program, self.state(), |i| {
            same_instance[i as usize].map(|id| id.0)
        })?;
        let switch = self.successor(program, counted, lowered, code, tables, state)?;
        self.copy_profiles(&switch, &same, &mut carried);
        for (o, i) in self.program().tables.iter().zip(0..) {
            let old_id = ir::TableId(i);
            if same.contains(&Some(old_id)) {
                carried.kept.push(o.name.clone());
                continue;
            }
            let new_id = switch.program().tables.iter().position(|n| n.name == o.name);
            match new_id {
                Some(id) => self.copy_table(old_id, &switch, ir::TableId(id as u32), &mut carried),
                None => {
                    let from = self.table(old_id);
                    let what = match (from.len(), from.is_default_set()) {
                        (0, false) => continue,
                        (0, true) => "the default action".to_string(),
                        (len, false) => entries(len),
                        (len, true) => format!("{} and the default action", entries(len)),
                    };
                    carried.lost.push(format!(
                        "{} `{}`: the new program has none with this name; {what} lost",
                        kind_of(o),
                        o.name
                    ));
                }
            }
        }
        self.lose_directs(&switch, &mut carried);
        if keeps_all && !carried.lost.is_empty() {
            return Err(ProgramError::unsupported(format!(
                "this would be lost:\n{}",
                carried.lost.join("\n")
            )));
        }
        Ok((switch, carried))
    }

    /// A switch with another program and a state of its own, which can replace this one.
    pub(crate) fn begin_by(&self, next: Successor) -> Result<Arc<Switch>, ProgramError> {
        let Successor { program, counted, lowered, code, .. } = next;
        let tables = p4jet_interp::build_tables(&program)?;
        let tables = tables.into_iter().map(|table| Arc::new(Mutex::new(table))).collect();
        let state = p4jet_interp::build_state(&program, self.workers())?;
        self.successor(program, counted, lowered, code, tables, state)
    }

    /// Reports direct counters and meters with a count or a rate that the new program does not have.
    fn lose_directs(&self, switch: &Switch, carried: &mut Carried) {
        let (old, new) = (Side(self.program()), Side(switch.program()));
        for (o, i) in old.0.tables.iter().zip(0..) {
            let from = self.table(ir::TableId(i));
            let id = new.0.tables.iter().position(|n| n.name == o.name);
            for (instance, direct) in old.direct(ir::TableId(i)) {
                let found =
                    id.and_then(|id| new.direct(ir::TableId(id as u32)).find(|(_, n)| n.name == direct.name));
                let (what, values) = match direct.kind {
                    ir::InstanceKind::DirectCounter { .. } => ("counter", "counts"),
                    _ => ("meter", "rates"),
                };
                let why = match found {
                    Some((_, n)) if same_unit(&n.kind, &direct.kind) => continue,
                    Some(_) => "its unit has changed",
                    None => "the new program has none with this name",
                };
                let has_value = |row: u32| match self.state().counter_read(instance.0, row) {
                    Ok(count) => count != Default::default(),
                    Err(_) => self.state().meter_rates(instance.0, row).is_ok_and(|rates| rates.is_some()),
                };
                // Row 0 is that of packets that match no entry.
                let rows = from.entries().map(|(handle, _)| from.row_of(handle));
                if rows.chain([0]).any(has_value) {
                    carried.lost.push(format!(
                        "direct {what} `{}` of `{}`: {why}; its {values} are lost",
                        direct.name, o.name
                    ));
                }
            }
        }
    }

    /// Returns for each extern instance of the new program the unchanged instance of this switch, if any.
    fn same_instances(
        &self,
        new: Side<'_>,
        same_table: &[Option<ir::TableId>],
        carried: &mut Carried,
    ) -> Vec<Option<ir::InstanceId>> {
        use ir::InstanceKind as Kind;
        let is_same = |old: &Kind, new: &Kind| match (old, new) {
            // The initial values no longer matter.
            (Kind::Register { width: a, size: b, .. }, Kind::Register { width: c, size: d, .. }) => {
                (a, b) == (c, d)
            }
            (Kind::DirectCounter { unit: a, table: old }, Kind::DirectCounter { unit: b, table: new })
            | (Kind::DirectMeter { unit: a, table: old }, Kind::DirectMeter { unit: b, table: new }) => {
                a == b && same_table[new.index()] == Some(*old)
            }
            (Kind::Counter { .. } | Kind::Meter { .. }, _) => old == new,
            _ => false,
        };
        let old = self.program();
        let mut same = vec![None; new.0.instances.len()];
        for (o, i) in old.instances.iter().zip(0..) {
            let what = match o.kind {
                Kind::Register { .. } => "register",
                Kind::Counter { .. } => "counter",
                Kind::Meter { .. } => "meter",
                // See `lose_directs`.
                Kind::DirectCounter { .. } | Kind::DirectMeter { .. } => "",
                Kind::Digest { .. } | Kind::ActionProfile { .. } => continue,
            };
            let found = new.0.instances.iter().position(|n| n.name == o.name);
            match found {
                Some(n) if is_same(&o.kind, &new.0.instances[n].kind) => {
                    same[n] = Some(ir::InstanceId(i));
                    carried.kept.push(o.name.clone());
                }
                _ if what.is_empty() => {}
                Some(_) => carried
                    .lost
                    .push(format!("{what} `{}`: width, size or unit have changed; it starts empty", o.name)),
                None => {
                    carried.lost.push(format!("{what} `{}`: the new program has none with this name", o.name))
                }
            }
        }
        same
    }

    /// Copies the members and groups of action profiles whose tables are not `same`, with their handles.
    fn copy_profiles(&self, switch: &Switch, same: &[Option<ir::TableId>], carried: &mut Carried) {
        let (old, new) = (Side(self.program()), Side(switch.program()));
        let first = |side: Side<'_>, name: &str| {
            let is_user = |table: &ir::Table| side.profile(table).is_some_and(|(found, _)| found == name);
            side.0.tables.iter().position(is_user).map(|id| ir::TableId(id as u32))
        };
        for instance in &old.0.instances {
            let ir::InstanceKind::ActionProfile { .. } = instance.kind else { continue };
            let name = instance.name.as_str();
            let Some(old_id) = first(old, name).filter(|id| !same.contains(&Some(*id))) else { continue };
            let from = self.table(old_id).profile().cloned();
            let Some(from) = from.filter(|from| from.objects_count() > 0) else { continue };
            let mut lose = |why: String| carried.lost.push(format!("action profile `{name}`: {why}"));
            let new_id = first(new, name);
            let to = new_id.and_then(|id| switch.table(id).profile().cloned());
            let (Some(new_id), Some(to)) = (new_id, to) else {
                lose("no table of the new program has it; its members and groups are lost".to_string());
                continue;
            };
            let old_actions = old.actions(&old.0.tables[old_id.index()]);
            let new_actions = new.actions(&new.0.tables[new_id.index()]);
            for (handle, action) in from.members() {
                let Some(action) = translated(&action, &old_actions, &new_actions, false) else {
                    let action = old_actions[action.action as usize].0;
                    lose(format!(
                        "member {handle}: the action `{action}` is not in its list now, or has other parameters"
                    ));
                    continue;
                };
                if let Err(error) = to.restore_member(handle, action) {
                    lose(format!("member {handle}: {error}"));
                }
            }
            for (handle, _) in from.groups() {
                let (members, is_weighted) = from.group_places(handle).unwrap_or_default();
                let copied = to.restore_group(handle).and_then(|_| match is_weighted {
                    true => to.set_group(handle, &members, true).map(drop),
                    false => members.iter().try_for_each(|(member, _)| to.add_to_group(*member, handle)),
                });
                if let Err(error) = copied {
                    lose(format!("group {handle}: {error}"));
                }
            }
        }
    }

    /// Inserts the entries of the old table into a rebuilt one.
    fn copy_table(&self, old_id: ir::TableId, switch: &Switch, new_id: ir::TableId, carried: &mut Carried) {
        let (old, new) = (Side(self.program()), Side(switch.program()));
        let (o, n) = (&old.0.tables[old_id.index()], &new.0.tables[new_id.index()]);
        let from = self.table(old_id);
        let mut to = switch.table(new_id);
        let mut lose = |why: String| carried.lost.push(format!("{} `{}`: {why}", kind_of(o), o.name));
        // The new program brings its own entries and default action. `own` are the old program's that are left.
        let declared: Vec<Entry> = p4jet_interp::given_entries(o).collect();
        let is_own =
            |handle: EntryHandle, e: &Entry| from.find(&e.key, e.priority).filter(|found| *found == handle);
        let own: Vec<Option<Entry>> =
            (declared.iter().zip(0..)).map(|(e, i)| from.get(is_own(EntryHandle(i), e)?)).collect();
        let given: HashSet<EntryHandle> =
            own.iter().zip(0..).filter(|(own, _)| own.is_some()).map(|(_, i)| EntryHandle(i)).collect();
        let added = from.len() - given.len();
        let now_us = self.now_us();
        let meters: Vec<ir::InstanceId> = old.direct(old_id).map(|(instance, _)| instance).collect();
        let is_metered = |handle: EntryHandle| {
            let rates = |meter: &ir::InstanceId| self.state().meter_rates(meter.0, from.row_of(handle));
            meters.iter().any(|meter| rates(meter).is_ok_and(|rates| rates.is_some()))
        };
        // What clients have changed of an entry of the old program.
        let is_changed = |place: usize, entry: &Entry| {
            let handle = EntryHandle(place as u32);
            entry.action != declared[place].action
                || from.life(handle, now_us).is_some()
                || is_metered(handle)
        };
        let changes = (own.iter().enumerate())
            .filter(|(place, own)| own.as_ref().is_none_or(|entry| is_changed(*place, entry)))
            .count();
        let is_default_set = from.is_default_set();
        let profile =
            |side: Side<'_>, table: &ir::Table| side.profile(table).map(|(name, _)| name.to_string());
        if profile(old, o) != profile(new, n) && (added > 0 || changes > 0 || is_default_set) {
            return lose(format!(
                "it has another action profile now, or none; {} and the default action lost",
                entries(from.len())
            ));
        }
        if o.keys != n.keys {
            if changes > 0 {
                lose(format!(
                    "the keys are different now; the changes of {} of the program are lost",
                    entries(changes)
                ));
            }
            return match (added, is_default_set) {
                (0, false) => {}
                (0, true) => lose("the keys are different now; the default action is lost".to_string()),
                (_, false) => lose(format!("the keys are different now; {} lost", entries(added))),
                (_, true) => lose(format!(
                    "the keys are different now; {} and the default action are lost",
                    entries(added)
                )),
            };
        }
        let (old_actions, new_actions) = (old.actions(o), new.actions(n));
        // Translates an action of the old list, if the new table allows it in the same role.
        let translate =
            |action: &Action, as_default| translated(action, &old_actions, &new_actions, as_default);
        let action_name = |action: &Action| old_actions[action.action as usize].0;
        let mut copied = Vec::new();
        for ((place, own), like) in own.iter().enumerate().zip(n.entries_like(o)) {
            let mut lose = |why: &str| lose(format!("entry {place:#x} of the program: {why}"));
            let handle = EntryHandle(place as u32);
            let Some(like) = like else {
                if own.as_ref().is_some_and(|entry| is_changed(place, entry)) {
                    lose("it was changed, and the new program has none with this key");
                }
                continue;
            };
            let (is_const, like) = (n.entries[like as usize].is_const, EntryHandle(like));
            let Some(entry) = own else {
                if is_const {
                    lose("it was deleted, and is const now");
                } else if let Err(error) = to.delete(like) {
                    lose(&error.to_string());
                }
                continue;
            };
            if entry.action != declared[place].action {
                match translate(&entry.action, false).filter(|_| !is_const) {
                    Some(action) => {
                        if let Err(error) = to.modify(like, action) {
                            lose(&error.to_string());
                        }
                    }
                    None if is_const => lose("its action was changed, and it is const now"),
                    None => lose(&format!(
                        "the action `{}` is not in its list now, or has other parameters",
                        action_name(&entry.action)
                    )),
                }
            }
            copied.push((handle, like));
        }
        let of_program = copied.len();
        for (handle, entry) in from.entries() {
            if given.contains(&handle) {
                continue;
            }
            if n.const_entries {
                lose(format!("the entries are const now; {} lost", entries(added)));
                break;
            }
            let Some(action) = translate(&entry.action, false) else {
                lose(format!(
                    "entry {:#x}: the action `{}` is not in its list now, or has other parameters",
                    handle.0,
                    action_name(&entry.action)
                ));
                continue;
            };
            match to.restore(handle, Entry { action, ..entry }) {
                Ok(new_handle) if new_handle == handle => copied.push((handle, handle)),
                Ok(new_handle) => {
                    copied.push((handle, new_handle));
                    lose(format!("entry {:#x} has the handle {:#x} now", handle.0, new_handle.0));
                }
                Err(error) => lose(format!("entry {:#x}: {error}", handle.0)),
            }
        }
        carried.entries_copied += copied.len() - of_program;
        if is_default_set {
            let default = from.default_action().clone();
            match translate(&default, true) {
                Some(action) if n.const_default && action == *to.default_action() => {}
                _ if n.const_default => lose("the default action is const now".to_string()),
                Some(action) => {
                    if let Err(error) = to.set_default(action) {
                        lose(format!("default action: {error}"));
                    }
                }
                None => lose(format!(
                    "default action: `{}` is not in its list now, or has other parameters",
                    action_name(&default)
                )),
            }
        }
        for (handle, new_handle) in &copied {
            if let Some(life) = from.life(*handle, now_us) {
                if !n.idle_timeout {
                    lose(format!("entry {:#x}: the table has no timeouts now", handle.0));
                    continue;
                }
                let hit_us = now_us.saturating_sub(1000 * life.since_hit_ms);
                let _ = to.set_timeout(*new_handle, life.timeout_ms, hit_us);
            }
        }
        to.publish();
        // Counts that workers add until they change over are lost.
        let mut kept = Vec::new();
        for (old_instance, o) in old.direct(old_id) {
            let same = |n: &ir::Instance| n.name == o.name && same_unit(&n.kind, &o.kind);
            let Some((new_instance, _)) = new.direct(new_id).find(|(_, n)| same(n)) else { continue };
            kept.push(o.name.clone());
            let rows = copied.iter().map(|(handle, new)| (from.row_of(*handle), to.row_of(*new)));
            // Row 0 is that of packets that match no entry.
            for (from_row, to_row) in rows.chain([(0, 0)]) {
                let (from, to) = (self.state(), switch.state());
                if let Ok(count) = from.counter_read(old_instance.0, from_row) {
                    let _ = to.counter_write(new_instance.0, to_row, count);
                } else if let Ok(rates) = from.meter_rates(old_instance.0, from_row) {
                    let _ = to.meter_set_rates(new_instance.0, to_row, rates);
                }
            }
        }
        carried.kept.extend(kept);
    }
}

/// An action of the old list, if the new one has it in the same role. Members and groups keep their handles.
fn translated(
    action: &Action,
    old: &[(&str, Vec<u32>, bool, bool)],
    new: &[(&str, Vec<u32>, bool, bool)],
    as_default: bool,
) -> Option<Action> {
    if action.as_member().or(action.as_group()).is_some() {
        return Some(action.clone());
    }
    let (name, widths, ..) = &old[action.action as usize];
    let index = new.iter().position(|(new_name, new_widths, table_only, default_only)| {
        new_name == name && new_widths == widths && !(if as_default { *table_only } else { *default_only })
    })?;
    Some(Action { action: index as u32, data: action.data.clone() })
}

/// True for two direct counters, or two direct meters, of the same unit.
fn same_unit(a: &ir::InstanceKind, b: &ir::InstanceKind) -> bool {
    use ir::InstanceKind::{DirectCounter, DirectMeter};
    match (a, b) {
        (DirectCounter { unit: a, .. }, DirectCounter { unit: b, .. })
        | (DirectMeter { unit: a, .. }, DirectMeter { unit: b, .. }) => a == b,
        _ => false,
    }
}

fn kind_of(table: &ir::Table) -> &'static str {
    if table.hidden { "value set" } else { "table" }
}

fn entries(n: usize) -> String {
    if n == 1 { "1 entry".to_string() } else { format!("{n} entries") }
}
