//! What the control plane wants to know of a program: its names, found by suffix, and the shape of its tables.

use crate::names::NameIndex;
use p4jet_ir::{ActionId, InstanceId, InstanceKind, MatchKind, Op, Program, TableId};
use std::collections::BTreeMap;

/// The names of a program.
pub(crate) struct Names {
    pub tables: NameIndex,
    pub actions: NameIndex,
    pub counters: NameIndex,
    pub registers: NameIndex,
    pub meters: NameIndex,
    pub profiles: NameIndex,
    /// The hidden tables.
    pub value_sets: NameIndex,
    /// Custom CRCs.
    pub crcs: NameIndex,
    /// By custom CRC: 16 or 32.
    pub crc_widths: Vec<u32>,
    /// By table.
    pub shapes: Vec<Shape>,
}

/// What commands need of a table besides its declaration.
pub(crate) struct Shape {
    /// Its actions, as indices in its list.
    pub actions: NameIndex,
    /// Whether entries carry a priority.
    pub needs_priority: bool,
    /// bmv2's word for the whole table.
    pub match_kind: &'static str,
    /// Its direct counters.
    pub direct_counters: Vec<InstanceId>,
    /// Its direct meters.
    pub direct_meters: Vec<InstanceId>,
}

impl Names {
    pub(crate) fn new(program: &Program) -> Names {
        let tables =
            program.tables.iter().zip(0..).filter(|(t, _)| !t.hidden).map(|(t, i)| (t.name.clone(), i));
        // The first of those that share a name stands for all of them; `$member` and the like are the compiler's.
        let mut actions = BTreeMap::new();
        for (a, i) in program.actions.iter().zip(0..).filter(|(a, _)| !a.control_name.starts_with('$')) {
            actions.entry(a.control_name.clone()).or_insert(i);
        }
        let instances = |wanted: fn(&InstanceKind) -> bool| {
            let all = program.instances.iter().zip(0..).filter(move |(i, _)| wanted(&i.kind));
            all.map(|(i, id)| (i.name.clone(), id)).collect::<Vec<_>>()
        };
        let is_register = |k: &InstanceKind| matches!(k, InstanceKind::Register { .. });
        let is_counter =
            |k: &InstanceKind| matches!(k, InstanceKind::Counter { .. } | InstanceKind::DirectCounter { .. });
        let is_meter =
            |k: &InstanceKind| matches!(k, InstanceKind::Meter { .. } | InstanceKind::DirectMeter { .. });
        let is_profile = |k: &InstanceKind| matches!(k, InstanceKind::ActionProfile { .. });
        let sets = program.tables.iter().zip(0..).filter(|(t, _)| t.hidden).map(|(t, i)| (t.name.clone(), i));
        let crcs = custom_crcs(program);
        Names {
            tables: NameIndex::new("table", tables),
            actions: NameIndex::new("action", actions),
            counters: NameIndex::new("counter", instances(is_counter)),
            registers: NameIndex::new("register", instances(is_register)),
            meters: NameIndex::new("meter", instances(is_meter)),
            profiles: NameIndex::new("action profile", instances(is_profile)),
            value_sets: NameIndex::new("parser value set", sets),
            crc_widths: crcs.values().copied().collect(),
            crcs: NameIndex::new("calculation", crcs.into_keys().zip(0..)),
            shapes: program
                .tables
                .iter()
                .zip(0..)
                .map(|(table, id)| shape(program, TableId(id), table))
                .collect(),
        }
    }
}

/// The CRCs whose constants can be set, with their widths: what their calls say first.
fn custom_crcs(program: &Program) -> BTreeMap<String, u32> {
    let bodies = program.blocks.iter().map(|b| &b.body).chain(program.actions.iter().map(|a| &a.body));
    let mut crcs = BTreeMap::new();
    for stmt in bodies.flat_map(|body| &body.nodes).flat_map(|node| &node.stmts) {
        if let Op::Extern { function, text, .. } = &stmt.op
            && let Some(name) = text.first()
        {
            let width = match function {
                f if f.starts_with("crc16_custom") => 16,
                f if f.starts_with("crc32_custom") => 32,
                _ => continue,
            };
            crcs.insert(name.clone(), width);
        }
    }
    crcs
}

/// The kind of a table in bmv2's words, in the order in which p4c decides it.
fn match_kind(table: &p4jet_ir::Table) -> &'static str {
    let has = |kinds: &[MatchKind]| table.keys.iter().any(|k| kinds.contains(&k.kind));
    if has(&[MatchKind::Range]) {
        "range"
    } else if has(&[MatchKind::Ternary, MatchKind::Optional]) {
        "ternary"
    } else if has(&[MatchKind::Lpm]) {
        "lpm"
    } else {
        "exact"
    }
}

/// Whether the entries of a table have priorities.
pub(crate) fn needs_priority(table: &p4jet_ir::Table) -> bool {
    matches!(match_kind(table), "range" | "ternary")
}

fn shape(program: &Program, id: TableId, table: &p4jet_ir::Table) -> Shape {
    let name = |a: &p4jet_ir::TableAction| program.actions[a.action.index()].control_name.clone();
    let actions = table.actions.iter().zip(0..).map(|(a, i)| (name(a), i));
    let instances = |wanted: &dyn Fn(&InstanceKind) -> bool| {
        let all = program.instances.iter().zip(0..).filter(|(i, _)| wanted(&i.kind));
        all.map(|(_, id)| InstanceId(id)).collect::<Vec<_>>()
    };
    let direct_counters =
        instances(&|k| matches!(k, InstanceKind::DirectCounter { table, .. } if *table == id));
    let direct_meters = instances(&|k| matches!(k, InstanceKind::DirectMeter { table, .. } if *table == id));
    Shape {
        actions: NameIndex::new("action", actions),
        needs_priority: needs_priority(table),
        match_kind: match_kind(table),
        direct_counters,
        direct_meters,
    }
}

/// The names of an action's parameters, without the action's own.
pub(crate) fn param_names(program: &Program, action: ActionId) -> Vec<&str> {
    program.actions[action.index()].params.iter().map(|param| program.param_name(action, *param)).collect()
}
