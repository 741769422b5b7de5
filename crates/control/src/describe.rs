//! The objects of a program with their shapes, as values and as JSON.

use crate::call::Call;
use crate::fields::{KeyField, Param, param_names};
use crate::value::number_word;
use p4jet_ir::{CounterUnit, Instance, InstanceId, InstanceKind, Program, TableId};
use serde::{Deserialize, Serialize};

/// An action in a table's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionInfo {
    /// Its full name: `ingress.set_nhop`.
    pub name: String,
    /// Its parameters, in their order.
    pub params: Vec<Param>,
    /// Entries cannot have it (`@defaultonly`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub default_only: bool,
    /// It cannot be the default action (`@tableonly`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub table_only: bool,
}

/// A table, or a parser value set: a table without actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its full name: `ingress.ipv4_lpm`.
    pub name: String,
    /// The largest number of entries.
    pub size: u32,
    /// The fields of its key.
    pub key: Vec<KeyField>,
    /// Its actions. The index in this list is the number of an action in an [`Update`](crate::Update).
    pub actions: Vec<ActionInfo>,
    /// The default action that the program declares.
    pub default: Call,
    /// The default action cannot change.
    pub const_default: bool,
    /// The entries cannot change.
    pub const_entries: bool,
    /// The entries that the program declares: their handles are 0 and up.
    pub initial_entries: usize,
    /// Entries have a priority: some key field is ternary, range or optional.
    pub needs_priority: bool,
    /// Entries can have an idle time.
    pub idle_timeout: bool,
    /// The action profile whose members and groups the entries name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Its direct counters.
    pub direct_counters: Vec<String>,
    /// Its direct meters.
    pub direct_meters: Vec<String>,
}

/// An action profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileInfo {
    /// Its full name.
    pub name: String,
    /// The largest number of members; 0 for no limit.
    pub size: u32,
    /// It is an action selector: it has groups.
    pub selector: bool,
    /// The tables that have it. Their lists of actions are those of the members.
    pub tables: Vec<String>,
}

/// A counter, meter or register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayInfo {
    /// Its full name.
    pub name: String,
    /// The number of cells; none if there is one for each entry of `table`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u32>,
    /// The table of a direct counter or meter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    /// The width of a register's cell in bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// What a counter or meter counts: `packets`, `bytes` or `packets_and_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A custom CRC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrcInfo {
    /// Its name.
    pub name: String,
    /// Its width in bits: 16 or 32.
    pub width: u32,
}

/// A message to the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestInfo {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<Param>,
}

/// All objects of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the types say what they are")]
pub struct Description {
    /// The name of the program.
    pub program: String,
    pub tables: Vec<TableInfo>,
    pub value_sets: Vec<TableInfo>,
    pub profiles: Vec<ProfileInfo>,
    pub counters: Vec<ArrayInfo>,
    pub meters: Vec<ArrayInfo>,
    pub registers: Vec<ArrayInfo>,
    pub crcs: Vec<CrcInfo>,
    pub digests: Vec<DigestInfo>,
}

impl Description {
    /// The table with this name, or whose full name ends in a dot and this name.
    pub fn table(&self, name: &str) -> Option<&TableInfo> {
        let ends = |table: &&TableInfo| table.name.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
        let tables = &self.tables;
        tables.iter().find(|table| table.name == name).or_else(|| tables.iter().find(ends))
    }
}

/// A table of a program. `needs_priority`: whether its entries have a priority.
pub(crate) fn table_info(program: &Program, id: TableId, needs_priority: bool) -> TableInfo {
    let table = &program.tables[id.index()];
    let key =
        table.keys.iter().map(|key| KeyField { name: key.name.clone(), kind: key.kind, width: key.width });
    let actions = table.actions.iter().map(|listed| {
        let action = &program.actions[listed.action.index()];
        let params = param_names(program, listed.action).into_iter().zip(&action.params);
        let params =
            params.map(|(name, field)| Param { name: name.to_string(), width: program.width(*field) });
        ActionInfo {
            name: action.control_name.clone(),
            params: params.collect(),
            default_only: listed.default_only,
            table_only: listed.table_only,
        }
    });
    let actions: Vec<_> = actions.collect();
    let default = Call {
        action: actions.get(table.default.action as usize).map(|action| action.name.clone()),
        params: table.default.data.iter().map(number_word).collect(),
        ..Call::default()
    };
    let direct = |wanted: fn(&InstanceKind) -> Option<TableId>| {
        let all = program.instances.iter().filter(|instance| wanted(&instance.kind) == Some(id));
        all.map(|instance| instance.name.clone()).collect()
    };
    TableInfo {
        name: table.name.clone(),
        size: table.size,
        key: key.collect(),
        actions,
        default,
        const_default: table.const_default,
        const_entries: table.const_entries,
        initial_entries: table.entries.len(),
        needs_priority,
        idle_timeout: table.idle_timeout,
        profile: table.profile.map(|profile| program.instances[profile.index()].name.clone()),
        direct_counters: direct(|kind| match kind {
            InstanceKind::DirectCounter { table, .. } => Some(*table),
            _ => None,
        }),
        direct_meters: direct(|kind| match kind {
            InstanceKind::DirectMeter { table, .. } => Some(*table),
            _ => None,
        }),
    }
}

/// The instances of a program with their ids.
pub(crate) fn instances(program: &Program) -> impl Iterator<Item = (InstanceId, &Instance)> {
    (0..).map(InstanceId).zip(&program.instances)
}

/// Fills in the objects other than tables.
pub(crate) fn describe_instances(program: &Program, into: &mut Description) {
    let unit = |unit: &CounterUnit| Some(unit.name().to_string());
    for (InstanceId(id), instance) in instances(program) {
        let name = instance.name.clone();
        let array = |size: Option<u32>| ArrayInfo { name, size, table: None, width: None, unit: None };
        let of = |table: &TableId| Some(program.tables[table.index()].name.clone());
        match &instance.kind {
            InstanceKind::Register { width, size, .. } => {
                into.registers.push(ArrayInfo { width: Some(*width), ..array(Some(*size)) });
            }
            InstanceKind::Counter { unit: counted, size } => {
                into.counters.push(ArrayInfo { unit: unit(counted), ..array(Some(*size)) });
            }
            InstanceKind::DirectCounter { unit: counted, table } => {
                into.counters.push(ArrayInfo { unit: unit(counted), table: of(table), ..array(None) });
            }
            InstanceKind::Meter { unit: counted, size } => {
                into.meters.push(ArrayInfo { unit: unit(counted), ..array(Some(*size)) });
            }
            InstanceKind::DirectMeter { unit: counted, table } => {
                into.meters.push(ArrayInfo { unit: unit(counted), table: of(table), ..array(None) });
            }
            InstanceKind::ActionProfile { size, selector } => {
                let has = |table: &&p4jet_ir::Table| table.profile.is_some_and(|profile| profile.0 == id);
                let tables = program.tables.iter().filter(has).map(|table| table.name.clone()).collect();
                let name = instance.name.clone();
                into.profiles.push(ProfileInfo { name, size: *size, selector: *selector, tables });
            }
            InstanceKind::Digest { fields } => {
                let field = |(name, width): &(String, u32)| Param { name: name.clone(), width: *width };
                let name = instance.name.clone();
                into.digests.push(DigestInfo { name, fields: fields.iter().map(field).collect() });
            }
        }
    }
}
