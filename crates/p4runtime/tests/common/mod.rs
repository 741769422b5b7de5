//! A switch with one object of every kind, and messages by name.
#![allow(dead_code, reason = "not every test file uses all of it")]

use p4jet_control::{Control, ControlError, Host, PortStats, Program, Rights, SharedControl, Swap};
use p4jet_dataplane::{Cancel, Subscription, Topics};
use p4jet_p4info::proto::config::{P4Info, Preamble};
use p4jet_p4info::proto::v1::{
    self, Entity, EntityKind, Exact, FieldMatch, FieldMatchType, Lpm, Optional, Range, TableAction,
    TableActionType, Ternary, Update, UpdateType,
};
use p4jet_p4runtime::pipeline::Pipeline;
use p4jet_p4runtime::session::RoleView;
use p4jet_p4runtime::{read, write};
use std::sync::Arc;
use std::time::Duration;

pub const PROGRAM: &str = include_str!("entities.p4");

pub const OK: i32 = 0;
pub const INVALID: i32 = 3;
pub const NOT_FOUND: i32 = 5;
pub const EXISTS: i32 = 6;
pub const DENIED: i32 = 7;
pub const FULL: i32 = 8;
pub const IN_USE: i32 = 9;
pub const ABORTED: i32 = 10;
pub const RANGE: i32 = 11;
pub const UNIMPLEMENTED: i32 = 12;

/// What P4Info and initial entries a program has, or the errors.
pub fn generated(text: &str) -> Result<p4jet_p4info::Generated, String> {
    let options = p4jet_syntax::Options {
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        ..p4jet_syntax::Options::default()
    };
    let parsed = p4jet_syntax::parse_text("entities.p4", text, &options);
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources.clone());
    let shown = || p4jet_syntax::render(&diagnostics, &parsed.sources, false);
    let typed = typed.ok_or_else(shown)?;
    let arch = if text.contains("psa.p4") { "psa" } else { "v1model" };
    p4jet_p4info::generate(&typed, arch).map_err(|e| p4jet_syntax::render(&e, &parsed.sources, false))
}

/// P4Info of a program.
pub fn p4info(text: &str) -> P4Info {
    generated(text).unwrap_or_else(|errors| panic!("{errors}")).p4info
}

/// What a test needs of a host, which otherwise has a fixed program.
pub trait Around: Send + Sync {
    fn ports(&self) -> Vec<PortStats> {
        Vec::new()
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError>;
}

/// The host made of it.
struct Hosted<A>(Arc<A>);

impl<A: Around> Host for Hosted<A> {
    fn prepare(&self, _: &Program<'_>, _: &Cancel) -> Result<Swap, ControlError> {
        Err(ControlError::new("no programs"))
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        Err(ControlError::new("no queues"))
    }

    fn subscribe(&self, _: Topics) -> Result<Subscription, ControlError> {
        Err(ControlError::new("no events"))
    }

    fn ports(&self) -> Vec<PortStats> {
        self.0.ports()
    }

    fn add_port(&self, _: u32, _: &str, _: &Rights) -> Result<(), ControlError> {
        Err(ControlError::new("no ports"))
    }

    fn remove_port(&self, _: u32) -> Result<(), ControlError> {
        Err(ControlError::new("no ports"))
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        self.0.hold_packets(change)
    }

    fn stop(&self) {}
}

pub struct Fixture {
    pub switch: SharedControl,
    pub pipeline: Pipeline,
    pub role: RoleView,
}

impl Fixture {
    /// The same switch with a host.
    pub fn hosted<A: Around + 'static>(mut self, host: &Arc<A>) -> Fixture {
        let host: Arc<dyn Host> = Arc::new(Hosted(Arc::clone(host)));
        self.switch = SharedControl::new(self.switch.control(), Some(host));
        self
    }

    pub fn new() -> Fixture {
        Fixture::of(PROGRAM)
    }

    pub fn of(text: &str) -> Fixture {
        let switch = p4jet_embed::switch("entities.p4", text).unwrap_or_else(|e| panic!("{e}"));
        let control = Control::new(switch);
        control.set_note_owner(&p4jet_p4runtime::owner::Owner);
        let pipeline = Pipeline::new(p4info(text), &control).unwrap_or_else(|e| panic!("{}", e.join("\n")));
        Fixture { switch: SharedControl::new(control, None), pipeline, role: RoleView::default() }
    }

    fn id(all: impl Iterator<Item = Preamble>, name: &str) -> u32 {
        let mut all =
            all.filter(|p| p.name == name || p.name == format!("I.{name}") || p.name == format!("P.{name}"));
        all.next().unwrap_or_else(|| panic!("no {name}")).id
    }

    pub fn table(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().tables.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn action_id(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().actions.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn profile(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().action_profiles.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn counter(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().counters.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn meter(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().meters.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn register(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().registers.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn value_set(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().value_sets.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    pub fn digest(&self, name: &str) -> u32 {
        Self::id(self.pipeline.p4info().digests.iter().map(|t| t.preamble.clone().unwrap()), name)
    }

    /// An action; its arguments in order.
    pub fn action(&self, name: &str, arguments: &[u64]) -> v1::Action {
        let params =
            (1..).zip(arguments).map(|(param_id, value)| v1::ActionParam { param_id, value: bytes(*value) });
        v1::Action { action_id: self.action_id(name), params: params.collect() }
    }

    pub fn act(&self, name: &str, arguments: &[u64]) -> Option<TableAction> {
        Some(TableAction { r#type: Some(TableActionType::Action(self.action(name, arguments))) })
    }

    pub fn entry(
        &self,
        table: &str,
        matches: Vec<FieldMatch>,
        action: Option<TableAction>,
    ) -> v1::TableEntry {
        v1::TableEntry { table_id: self.table(table), r#match: matches, action, ..Default::default() }
    }

    /// An entry of `l2`.
    pub fn l2(&self, mac: u64, port: u64) -> v1::TableEntry {
        self.entry("l2", vec![exact(1, mac)], self.act("forward", &[port]))
    }

    /// A worker that processes packets.
    pub fn worker(&self, index: usize) -> p4jet_embed::Worker {
        self.switch.control().switch().worker(p4jet_embed::EngineKind::Jit, index).unwrap()
    }

    pub fn write(&self, updates: Vec<Update>, atomicity: v1::Atomicity) -> write::Written {
        write::write(&self.pipeline, &self.switch, &self.role, updates, atomicity)
    }

    /// Applies one update. Returns its error; code 0 for success.
    pub fn update(&self, kind: UpdateType, kind_of: EntityKind) -> v1::Error {
        let written = self.write(vec![update(kind, kind_of)], v1::Atomicity::ContinueOnError);
        assert_eq!(written.refused, None);
        written.errors.map_or_else(v1::Error::default, |errors| errors[0].clone())
    }

    pub fn code(&self, kind: UpdateType, kind_of: EntityKind) -> i32 {
        let error = self.update(kind, kind_of);
        assert_eq!(error.canonical_code == 0, error.message.is_empty(), "{error:?}");
        error.canonical_code
    }

    pub fn insert(&self, entry: v1::TableEntry) -> i32 {
        self.code(UpdateType::Insert, EntityKind::TableEntry(entry))
    }

    pub fn modify(&self, entry: v1::TableEntry) -> i32 {
        self.code(UpdateType::Modify, EntityKind::TableEntry(entry))
    }

    pub fn delete(&self, entry: v1::TableEntry) -> i32 {
        self.code(UpdateType::Delete, EntityKind::TableEntry(entry))
    }

    pub fn try_read(&self, pattern: EntityKind) -> Result<Vec<EntityKind>, v1::Error> {
        let mut found = Vec::new();
        let wanted = [Entity { entity: Some(pattern) }];
        let read = read::read(&self.pipeline, &self.switch, &self.role, &wanted, &mut |page| {
            assert!(!page.is_empty() && page.len() <= read::PAGE_MAX);
            found.extend(page.into_iter().map(|entity| entity.entity.unwrap()));
            true
        });
        read.map(|()| found).map_err(|errors| errors[0].clone())
    }

    pub fn read(&self, pattern: EntityKind) -> Vec<EntityKind> {
        self.try_read(pattern).unwrap_or_else(|e| panic!("{e:?}"))
    }

    pub fn read_code(&self, pattern: EntityKind) -> i32 {
        self.try_read(pattern).map_or_else(|error| error.canonical_code, |_| OK)
    }

    pub fn entries(&self, pattern: v1::TableEntry) -> Vec<v1::TableEntry> {
        let entry = |kind| match kind {
            EntityKind::TableEntry(entry) => entry,
            other => panic!("{other:?}"),
        };
        self.read(EntityKind::TableEntry(pattern)).into_iter().map(entry).collect()
    }

    pub fn all(&self, table: &str) -> Vec<v1::TableEntry> {
        self.entries(v1::TableEntry { table_id: self.table(table), ..Default::default() })
    }
}

pub fn update(kind: UpdateType, kind_of: EntityKind) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(kind_of) }) }
}

/// The shortest form of a number.
pub fn bytes(value: u64) -> bytes::Bytes {
    let all = value.to_be_bytes();
    bytes::Bytes::copy_from_slice(&all[(value.leading_zeros() / 8).min(7) as usize..])
}

fn field(field_id: u32, of: FieldMatchType) -> FieldMatch {
    FieldMatch { field_id, field_match_type: Some(of) }
}

pub fn exact(id: u32, value: u64) -> FieldMatch {
    field(id, FieldMatchType::Exact(Exact { value: bytes(value) }))
}

pub fn string(id: u32, value: &str) -> FieldMatch {
    field(id, FieldMatchType::Exact(Exact { value: value.to_string().into() }))
}

pub fn lpm(id: u32, value: u64, prefix_len: i32) -> FieldMatch {
    field(id, FieldMatchType::Lpm(Lpm { value: bytes(value), prefix_len }))
}

pub fn ternary(id: u32, value: u64, mask: u64) -> FieldMatch {
    field(id, FieldMatchType::Ternary(Ternary { value: bytes(value), mask: bytes(mask) }))
}

pub fn range(id: u32, low: u64, high: u64) -> FieldMatch {
    field(id, FieldMatchType::Range(Range { low: bytes(low), high: bytes(high) }))
}

pub fn optional(id: u32, value: u64) -> FieldMatch {
    field(id, FieldMatchType::Optional(Optional { value: bytes(value) }))
}

/// Processor time of this thread, which other load does not change.
pub fn processor_time() -> Duration {
    // proc(5): utime and stime are fields 14 and 15, and the first one after the name is the third; 100 ticks per second.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields = stat.rsplit(')').next().unwrap().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
