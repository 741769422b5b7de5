//! Tables and extern state as a program declares them.

use p4jet_externs as externs;
use p4jet_ir::{ActionCall, CounterUnit, Instance, InstanceId, InstanceKind, Program, TableId};
use p4jet_tables as tables;
use std::collections::HashMap;
use std::fmt;

/// The reason why the tables of a program cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TablesError {
    /// The system refuses memory, for this reason.
    NoMemory(String),
    /// A table, given by its name, refuses an entry that the program declares.
    Entry(String, tables::TableError),
}

impl fmt::Display for TablesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TablesError::NoMemory(why) => write!(f, "no memory: {why}"),
            TablesError::Entry(table, error) => write!(f, "table `{table}`: {error}"),
        }
    }
}

impl std::error::Error for TablesError {}

/// Builds the program's tables with their declared entries, by [`p4jet_ir::TableId`]; those of one action profile share
/// it. Fails if the tables refuse an entry.
pub fn build_tables(program: &Program) -> Result<Vec<tables::Table>, TablesError> {
    let build = || {
        let mut profiles = HashMap::new();
        let tables = program.tables.iter().enumerate();
        tables.map(|(id, table)| build_table(program, TableId(id as u32), table, &mut profiles)).collect()
    };
    std::panic::catch_unwind(build).unwrap_or_else(|panic| match panic.downcast::<tables::NoMemory>() {
        Ok(no_memory) => Err(TablesError::NoMemory(no_memory.0)),
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Builds the state of the program's extern instances, by [`p4jet_ir::InstanceId`], with their declared initial values.
pub fn build_state(program: &Program, workers: usize) -> Result<externs::State, externs::StateError> {
    let state = externs::State::new(&instance_specs(program), workers)?;
    set_initial_values(program, &state, |_| true)?;
    Ok(state)
}

/// Builds the state for a program that replaces another one with the state `old`: instance `i` is `same(i)` of the old
/// state, if any ([`externs::State::succeeding`]); the others have their declared initial values.
pub fn succeeding_state(
    program: &Program,
    old: &externs::State,
    same: impl Fn(u32) -> Option<u32>,
) -> Result<externs::State, externs::StateError> {
    let state = old.succeeding(&instance_specs(program), &same)?;
    set_initial_values(program, &state, |i| same(i).is_none())?;
    Ok(state)
}

/// Returns the descriptions of the program's extern instances, by [`p4jet_ir::InstanceId`].
fn instance_specs(program: &Program) -> Vec<externs::InstanceSpec> {
    let spec = |instance: &Instance| {
        let kind = match instance.kind {
            InstanceKind::Register { width, size, .. } => externs::InstanceKind::Register { width, size },
            InstanceKind::Counter { unit, size } => {
                externs::InstanceKind::Counter { unit: counter_unit(unit), size }
            }
            InstanceKind::DirectCounter { unit, table } => {
                let table_size = program.tables[table.index()].size;
                externs::InstanceKind::DirectCounter { unit: counter_unit(unit), table_size }
            }
            InstanceKind::Meter { unit, size } => {
                externs::InstanceKind::Meter { bytes: unit == CounterUnit::Bytes, size }
            }
            InstanceKind::DirectMeter { unit, table } => {
                let table_size = program.tables[table.index()].size;
                externs::InstanceKind::DirectMeter { bytes: unit == CounterUnit::Bytes, table_size }
            }
            InstanceKind::Digest { .. } => externs::InstanceKind::Digest,
            InstanceKind::ActionProfile { .. } => externs::InstanceKind::ActionProfile,
        };
        externs::InstanceSpec { name: instance.name.clone(), kind }
    };
    program.instances.iter().map(spec).collect()
}

fn set_initial_values(
    program: &Program,
    state: &externs::State,
    wanted: impl Fn(u32) -> bool,
) -> Result<(), externs::StateError> {
    for (instance, i) in program.instances.iter().zip(0..) {
        if let InstanceKind::Register { size, initial, .. } = &instance.kind
            && initial.bits() > 0
            && wanted(i)
        {
            for cell in 0..*size {
                state.register_write(i, cell, initial)?;
            }
        }
    }
    Ok(())
}

fn counter_unit(unit: CounterUnit) -> externs::Unit {
    match unit {
        CounterUnit::Packets => externs::Unit::Packets,
        CounterUnit::Bytes => externs::Unit::Bytes,
        CounterUnit::Both => externs::Unit::Both,
    }
}

/// True if each entry of a table has its own state.
fn has_direct_state(program: &Program, id: TableId) -> bool {
    program.instances.iter().any(|instance| match instance.kind {
        InstanceKind::DirectCounter { table, .. } | InstanceKind::DirectMeter { table, .. } => table == id,
        _ => false,
    })
}

fn build_table(
    program: &Program,
    id: TableId,
    table: &p4jet_ir::Table,
    profiles: &mut HashMap<InstanceId, tables::ActionProfile>,
) -> Result<tables::Table, TablesError> {
    let actions = table.actions.iter().map(|action| {
        let params = &program.actions[action.action.index()].params;
        tables::ActionSpec { param_widths: params.iter().map(|f| program.width(*f)).collect() }
    });
    let spec = tables::TableSpec {
        keys: table.keys.iter().map(|key| tables::KeySpec { width: key.width, kind: key.kind }).collect(),
        actions: actions.collect(),
        size: table.size,
        row_per_entry: has_direct_state(program, id),
        idle_timeout: table.idle_timeout,
        default: action(&table.default),
    };
    let mut built = match table.profile {
        None => tables::Table::new(spec),
        Some(profile) => {
            let shared = profiles.entry(profile).or_insert_with(|| {
                let (size, selector) = match program.instances[profile.index()].kind {
                    InstanceKind::ActionProfile { size, selector } => (size, selector),
                    _ => unreachable!("the verifier asks for an action profile"),
                };
                tables::ActionProfile::new(spec.actions.clone(), size, selector)
            });
            tables::Table::with_profile(spec, shared)
        }
    };
    for entry in given_entries(table) {
        built.insert(entry).map_err(|error| TablesError::Entry(table.name.clone(), error))?;
    }
    Ok(built)
}

/// Returns the entries that the program declares for a table.
pub fn given_entries(table: &p4jet_ir::Table) -> impl Iterator<Item = tables::Entry> {
    table.entries.iter().map(|entry| tables::Entry {
        key: entry.key.clone(),
        priority: entry.priority,
        action: action(&entry.action),
    })
}

fn action(call: &ActionCall) -> tables::Action {
    tables::Action { action: call.action, data: call.data.clone() }
}
