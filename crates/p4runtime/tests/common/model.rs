//! A model of a P4Runtime server with common/entities.p4: its answers to Writes and its state. A second implementation of the
//! specification, written by hand for this program only.

use crate::common::Fixture;
use bytes::Bytes;
use p4jet_p4info::proto::v1::{
    self, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    CloneSessionEntry, CounterData, CounterEntry, DigestConfig, DigestEntry, EntityKind, Exact, FieldMatch,
    FieldMatchType, Index, Lpm, MeterConfig, MeterEntry, MulticastGroupEntry, Optional, P4Data,
    PacketReplicationEngineEntry, PortKind, Range, RegisterEntry, Replica, ReplicationType, TableAction,
    TableActionType, TableEntry, Ternary, UpdateType, ValueSetEntry, ValueSetMember, WatchKind,
};
use std::collections::{BTreeMap, HashMap, HashSet};

const INVALID: i32 = 3;
const ABSENT: i32 = 5;
const EXISTS: i32 = 6;
const DENIED: i32 = 7;
const FULL: i32 = 8;
const IN_USE: i32 = 9;
const RANGE: i32 = 11;
const UNIMPLEMENTED: i32 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Exact,
    Lpm,
    Ternary,
    Range,
    Optional,
}

/// A field of a key.
#[derive(Debug)]
pub struct Key {
    pub kind: Kind,
    pub width: u32,
    /// The width for clients.
    pub outer_width: u32,
    pub is_string: bool,
}

const fn key(kind: Kind, width: u32) -> Key {
    Key { kind, width, outer_width: width, is_string: false }
}

/// Where an action may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Both,
    Table,
    Default,
}

pub struct TableSpec {
    pub name: &'static str,
    pub keys: &'static [Key],
    pub actions: &'static [(&'static str, Scope)],
    pub size: usize,
    pub profile: Option<usize>,
    pub default: &'static str,
    pub const_default: bool,
    pub is_const: bool,
    /// It has a direct counter, a direct meter, and idle timeouts.
    pub direct: bool,
    /// The number of values of a field that are tried.
    pub few: u64,
}

const PLAIN: TableSpec = TableSpec {
    name: "",
    keys: &[],
    actions: &[("forward", Scope::Both), ("NoAction", Scope::Both)],
    size: 1024,
    profile: None,
    default: "NoAction",
    const_default: false,
    is_const: false,
    direct: false,
    few: 200,
};

impl TableSpec {
    pub fn has_priority(&self) -> bool {
        self.keys.iter().any(|key| matches!(key.kind, Kind::Ternary | Kind::Range | Kind::Optional))
    }
}

/// The place of `aged` in [`TABLES`].
pub const AGED: usize = 4;

pub const TABLES: &[TableSpec] = &[
    TableSpec {
        name: "l2",
        keys: &[key(Kind::Exact, 48)],
        actions: &[
            ("forward", Scope::Both),
            ("send", Scope::Both),
            ("classify", Scope::Table),
            ("drop_it", Scope::Default),
            ("NoAction", Scope::Both),
        ],
        size: 65536,
        default: "drop_it",
        ..PLAIN
    },
    TableSpec {
        name: "routes",
        keys: &[Key { kind: Kind::Exact, width: 10, outer_width: 10, is_string: true }, key(Kind::Lpm, 32)],
        const_default: true,
        ..PLAIN
    },
    TableSpec { name: "lpm_only", keys: &[key(Kind::Lpm, 32)], size: 200_000, ..PLAIN },
    TableSpec {
        name: "acl",
        keys: &[
            key(Kind::Ternary, 32),
            key(Kind::Optional, 8),
            key(Kind::Ternary, 8),
            key(Kind::Range, 16),
            key(Kind::Exact, 1),
        ],
        actions: &[
            ("forward", Scope::Both),
            ("classify", Scope::Both),
            ("drop_it", Scope::Both),
            ("NoAction", Scope::Both),
        ],
        size: 40_000,
        few: 8,
        ..PLAIN
    },
    TableSpec {
        name: "aged",
        keys: &[key(Kind::Exact, 48)],
        actions: &[("measured", Scope::Both), ("forward", Scope::Both), ("NoAction", Scope::Both)],
        size: 64,
        direct: true,
        few: 100,
        ..PLAIN
    },
    TableSpec {
        name: "labels",
        keys: &[
            Key { kind: Kind::Ternary, width: 12, outer_width: 32, is_string: false },
            key(Kind::Exact, 128),
        ],
        actions: &[("tag", Scope::Both), ("NoAction", Scope::Both)],
        size: 64,
        few: 12,
        ..PLAIN
    },
    TableSpec {
        name: "spread",
        keys: &[key(Kind::Exact, 32)],
        actions: &[("forward", Scope::Both), ("drop_it", Scope::Both), ("NoAction", Scope::Both)],
        size: 64,
        profile: Some(0),
        few: 100,
        ..PLAIN
    },
    TableSpec {
        name: "counted",
        keys: &[key(Kind::Exact, 32)],
        size: 64,
        profile: Some(1),
        few: 30,
        ..PLAIN
    },
    TableSpec {
        name: "indirect",
        keys: &[key(Kind::Exact, 32)],
        size: 64,
        profile: Some(2),
        few: 100,
        ..PLAIN
    },
    TableSpec {
        name: "constant",
        keys: &[key(Kind::Ternary, 8)],
        actions: &[("classify", Scope::Both), ("NoAction", Scope::Both)],
        is_const: true,
        ..PLAIN
    },
    TableSpec {
        name: "started",
        keys: &[key(Kind::Exact, 16)],
        actions: &[("classify", Scope::Both), ("NoAction", Scope::Both)],
        size: 4,
        few: 8,
        ..PLAIN
    },
    TableSpec { name: "owned", keys: &[key(Kind::Exact, 16)], size: 16, few: 40, ..PLAIN },
    TableSpec { name: "keyless", ..PLAIN },
];

pub struct ProfileSpec {
    pub name: &'static str,
    /// The place of its table.
    pub table: usize,
    pub selector: bool,
    size: usize,
    max_group_size: i32,
    /// The highest weight, if sizes count members.
    counts_members: Option<i32>,
}

impl ProfileSpec {
    /// What a group or one-shot counts against the size: its weights, or its members.
    fn size_of(&self, weights: &[i32]) -> i64 {
        match self.counts_members {
            Some(_) => weights.len() as i64,
            None => weights.iter().map(|weight| i64::from(*weight)).sum(),
        }
    }
}

pub const PROFILES: &[ProfileSpec] = &[
    ProfileSpec {
        name: "paths",
        table: 6,
        selector: true,
        size: 16,
        max_group_size: 6,
        counts_members: None,
    },
    ProfileSpec {
        name: "members_counted",
        table: 7,
        selector: true,
        size: 8,
        max_group_size: 3,
        counts_members: Some(5),
    },
    ProfileSpec {
        name: "fixed_actions",
        table: 8,
        selector: false,
        size: 4,
        max_group_size: 0,
        counts_members: None,
    },
];

/// The parameters of an action: widths in the program and for clients.
pub fn params(action: &str) -> &'static [(u32, u32)] {
    match action {
        "forward" | "measured" => &[(9, 9)],
        "send" => &[(9, 9), (48, 48)],
        "classify" => &[(8, 8)],
        "tag" => &[(12, 32)],
        _ => &[],
    }
}

const ACTIONS: [&str; 7] = ["forward", "send", "classify", "drop_it", "NoAction", "measured", "tag"];
const PORT_MAX: u128 = 511;
/// The ports of the host.
const PORTS: u128 = 16;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Match {
    Number(u128),
    String(Bytes),
    Lpm(u128, i32),
    Ternary(u128, u128),
    Range(u128, u128),
    Optional(Option<u128>),
}

#[derive(Clone, Debug, PartialEq)]
struct Call {
    name: &'static str,
    arguments: Vec<u128>,
}

#[derive(Clone, Debug, PartialEq)]
enum Act {
    Action(Call),
    Member(u32),
    Group(u32),
    /// The actions of a one shot, and the message without them.
    Set(Vec<Call>, ActionProfileActionSet),
}

#[derive(Clone, Debug)]
struct Entry {
    act: Act,
    is_const: bool,
    metadata: Bytes,
    cookie: u64,
    idle_timeout_ns: i64,
    counter: CounterData,
    meter: Option<MeterConfig>,
}

type TableState = BTreeMap<(Vec<Match>, i32), Entry>;

#[derive(Clone)]
pub struct Model {
    ids: HashMap<u32, &'static str>,
    tables: Vec<TableState>,
    defaults: Vec<Entry>,
    members: Vec<BTreeMap<u32, Call>>,
    groups: Vec<BTreeMap<u32, ActionProfileGroup>>,
    multicast: BTreeMap<u32, MulticastGroupEntry>,
    sessions: BTreeMap<u32, CloneSessionEntry>,
    counters: [Vec<CounterData>; 2],
    meters: Vec<Option<MeterConfig>>,
    sets: [Vec<Vec<Match>>; 2],
    stamps: Vec<u128>,
    digest: Option<DigestConfig>,
}

/// Faults of the form, and faults that depend on the state.
#[derive(Default)]
struct Faults {
    form: Vec<i32>,
    state: Vec<i32>,
}

impl Faults {
    fn form(&mut self, wrong: bool, code: i32) {
        if wrong {
            self.form.push(code);
        }
    }

    fn state(&mut self, wrong: bool, code: i32) {
        if wrong {
            self.state.push(code);
        }
    }

    /// The possible codes of the answer, if something is wrong.
    fn codes(self) -> Result<(), Vec<i32>> {
        match (self.form.is_empty(), self.state.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(self.state),
            (false, _) => Err(self.form),
        }
    }
}

fn number(bytes: &[u8], width: u32) -> Result<u128, i32> {
    let mut value = 0u128;
    for byte in bytes {
        if value >> 120 != 0 {
            return Err(RANGE);
        }
        value = value << 8 | u128::from(*byte);
    }
    match bytes.is_empty() || width < 128 && value >> width != 0 {
        true => Err(RANGE),
        false => Ok(value),
    }
}

/// A number of a translated type.
fn translated(bytes: &[u8], width: u32, outer_width: u32) -> Result<u128, i32> {
    let value = number(bytes, outer_width)?;
    if value >> width != 0 && width < 128 { Err(INVALID) } else { Ok(value) }
}

fn ones(width: u32) -> u128 {
    if width == 128 { u128::MAX } else { (1 << width) - 1 }
}

fn short(value: u128) -> Bytes {
    let all = value.to_be_bytes();
    let first = (value.leading_zeros() / 8).min(15) as usize;
    Bytes::copy_from_slice(&all[first..])
}

impl Key {
    fn read(&self, of: Option<&FieldMatchType>) -> Result<Match, i32> {
        let value = |bytes: &[u8]| translated(bytes, self.width, self.outer_width);
        let is_translated = self.width != self.outer_width;
        match (self.kind, of) {
            (Kind::Exact, Some(FieldMatchType::Exact(m))) if self.is_string => {
                Ok(Match::String(m.value.clone()))
            }
            (Kind::Exact, Some(FieldMatchType::Exact(m))) => value(&m.value).map(Match::Number),
            (Kind::Lpm, Some(FieldMatchType::Lpm(m))) => {
                if m.prefix_len < 1 || m.prefix_len > self.width as i32 {
                    return Err(INVALID);
                }
                let read = value(&m.value)?;
                let host = self.width - m.prefix_len as u32;
                if read & ones(host) != 0 { Err(INVALID) } else { Ok(Match::Lpm(read, m.prefix_len)) }
            }
            (Kind::Ternary, Some(FieldMatchType::Ternary(m))) => {
                let mask = number(&m.mask, self.outer_width)?;
                if mask == 0 || is_translated && mask != ones(self.outer_width) {
                    return Err(INVALID);
                }
                let read = value(&m.value)?;
                if read & !mask != 0 { Err(INVALID) } else { Ok(Match::Ternary(read, mask)) }
            }
            (Kind::Range, Some(FieldMatchType::Range(m))) => {
                let (low, high) = (value(&m.low)?, value(&m.high)?);
                match low > high || (low == 0 && high == ones(self.width)) {
                    true => Err(INVALID),
                    false => Ok(Match::Range(low, high)),
                }
            }
            (Kind::Optional, Some(FieldMatchType::Optional(m))) => {
                Ok(Match::Optional(Some(value(&m.value)?)))
            }
            _ => Err(INVALID),
        }
    }

    /// The match that is left out.
    fn all(&self) -> Option<Match> {
        match self.kind {
            Kind::Exact => None,
            Kind::Lpm => Some(Match::Lpm(0, 0)),
            Kind::Ternary => Some(Match::Ternary(0, 0)),
            Kind::Range => Some(Match::Range(0, ones(self.width))),
            Kind::Optional => Some(Match::Optional(None)),
        }
    }
}

fn read_key(keys: &[Key], given: &[FieldMatch], faults: &mut Faults) -> Vec<Match> {
    let mut found = vec![None; keys.len()];
    for m in given {
        let place = m.field_id.wrapping_sub(1) as usize;
        let Some(key) = keys.get(place) else {
            faults.form.push(INVALID);
            continue;
        };
        faults.form(found[place].is_some(), INVALID);
        match key.read(m.field_match_type.as_ref()) {
            Ok(read) => found[place] = Some(read),
            Err(code) => faults.form.push(code),
        }
    }
    let all = found.into_iter().zip(keys).map(|(found, key)| found.or(key.all()));
    let all: Vec<_> = all.collect();
    faults.form(all.iter().any(Option::is_none), INVALID);
    all.into_iter().flatten().collect()
}

fn show_key(keys: &[Key], matches: &[Match]) -> Vec<FieldMatch> {
    let mut shown = Vec::new();
    for ((key, of), field_id) in keys.iter().zip(matches).zip(1..) {
        if key.all().as_ref() == Some(of) {
            continue;
        }
        let of = match of {
            Match::Number(value) => FieldMatchType::Exact(Exact { value: short(*value) }),
            Match::String(value) => FieldMatchType::Exact(Exact { value: value.clone() }),
            Match::Lpm(value, prefix_len) => {
                FieldMatchType::Lpm(Lpm { value: short(*value), prefix_len: *prefix_len })
            }
            Match::Ternary(value, mask) => {
                FieldMatchType::Ternary(Ternary { value: short(*value), mask: short(*mask) })
            }
            Match::Range(low, high) => FieldMatchType::Range(Range { low: short(*low), high: short(*high) }),
            Match::Optional(value) => FieldMatchType::Optional(Optional { value: short(value.unwrap_or(0)) }),
        };
        shown.push(FieldMatch { field_id, field_match_type: Some(of) });
    }
    shown
}

fn check_meter(config: &MeterConfig) -> bool {
    let MeterConfig { cir, cburst, pir, pburst, eburst } = *config;
    [cir, cburst, pir, pburst].into_iter().all(|n| n >= 0) && cir <= pir && eburst == 0
}

fn check_count(data: &CounterData) -> bool {
    data.byte_count >= 0 && data.packet_count >= 0
}

fn check_index(index: Option<&Index>, size: usize, faults: &mut Faults) -> std::ops::Range<usize> {
    match index {
        None => 0..size,
        Some(Index { index }) => {
            faults.form(*index < 0, INVALID);
            faults.form(*index >= size as i64, RANGE);
            let index = (*index).clamp(0, size as i64 - 1) as usize;
            index..index + 1
        }
    }
}

fn check_watch(watch: Option<&WatchKind>, faults: &mut Faults) {
    let is_there = match watch {
        None => true,
        Some(WatchKind::WatchPort(bytes)) => {
            bytes.is_empty() || number(bytes, 32).is_ok_and(|port| port < PORTS)
        }
        Some(WatchKind::Watch(port)) => (0..PORTS as i32).contains(port),
    };
    faults.form(!is_there, INVALID);
}

fn check_weights(spec: &ProfileSpec, weights: &[i32], limit: i32, members: bool, faults: &mut Faults) {
    faults.form(weights.iter().any(|weight| *weight < 1), INVALID);
    let size = if members { weights.len() as i64 } else { weights.iter().map(|w| i64::from(*w)).sum() };
    faults.form(limit > 0 && size > i64::from(limit), INVALID);
    if let Some(max) = spec.counts_members.filter(|_| members) {
        faults.form(weights.iter().any(|weight| *weight > max), INVALID);
    }
}

/// Replicas with ports in the shortest form.
fn read_replicas(given: &[Replica], faults: &mut Faults) -> Vec<Replica> {
    let mut known = HashSet::new();
    let mut check = |port: Result<u128, i32>, instance: u32, faults: &mut Faults| {
        let port = port.unwrap_or(u128::MAX);
        faults.form(port > PORT_MAX || instance > 65_535 || !known.insert((port, instance)), INVALID);
        port
    };
    let mut all = given.to_vec();
    for replica in &mut all {
        let port = match &mut replica.port_kind {
            Some(PortKind::EgressPort(port)) => Ok(u128::from(*port)),
            Some(PortKind::Port(bytes)) => {
                let port = number(bytes, 32);
                *bytes = port.map_or(Bytes::new(), short);
                port
            }
            None => Err(INVALID),
        };
        let own = check(port, replica.instance, faults);
        for backup in &mut replica.backup_replicas {
            let port = check(number(&backup.port, 32), backup.instance, faults);
            faults.form(port == own, INVALID);
            backup.port = short(port);
        }
    }
    all
}

impl Model {
    pub fn new(f: &Fixture) -> Model {
        let mut ids = HashMap::new();
        ids.extend(TABLES.iter().map(|table| (f.table(table.name), table.name)));
        ids.extend(PROFILES.iter().map(|profile| (f.profile(profile.name), profile.name)));
        ids.extend(ACTIONS.map(|action| (f.action_id(action), action)));
        ids.extend(["seen", "few"].map(|counter| (f.counter(counter), counter)));
        ids.extend(["known", "kinds"].map(|set| (f.value_set(set), set)));
        ids.insert(f.meter("rates"), "rates");
        ids.insert(f.register("stamps"), "stamps");
        ids.insert(f.digest("learned_t"), "learned_t");
        let of_program = |act: Call, is_const| Entry {
            act: Act::Action(act),
            is_const,
            metadata: Bytes::new(),
            cookie: 0,
            idle_timeout_ns: 0,
            counter: CounterData::default(),
            meter: None,
        };
        let classify = |class| Call { name: "classify", arguments: vec![class] };
        let default =
            |table: &TableSpec| of_program(Call { name: table.default, arguments: Vec::new() }, false);
        let mut tables = vec![TableState::new(); TABLES.len()];
        let place = |name| TABLES.iter().position(|table| table.name == name).unwrap();
        let constant = [(Match::Ternary(6, 15), 3), (Match::Ternary(17, 255), 2), (Match::Ternary(0, 0), 1)];
        for ((key, priority), class) in constant.into_iter().zip(1..) {
            tables[place("constant")].insert((vec![key], priority), of_program(classify(class), true));
        }
        for (key, is_const) in [(1, true), (2, false)] {
            let entry = of_program(classify(key), is_const);
            tables[place("started")].insert((vec![Match::Number(key)], 0), entry);
        }
        Model {
            ids,
            tables,
            defaults: TABLES.iter().map(default).collect(),
            members: vec![BTreeMap::new(); PROFILES.len()],
            groups: vec![BTreeMap::new(); PROFILES.len()],
            multicast: BTreeMap::new(),
            sessions: BTreeMap::new(),
            counters: [16, 4].map(|size| vec![CounterData::default(); size]),
            meters: vec![None; 8],
            sets: Default::default(),
            stamps: vec![0; 8],
            digest: None,
        }
    }

    fn find<T>(&self, all: &[T], id: u32, name: impl Fn(&T) -> &'static str) -> Option<usize> {
        let wanted = self.ids.get(&id)?;
        all.iter().position(|one| name(one) == *wanted)
    }

    /// The key of an existing entry.
    pub fn some_key(&self, table: usize, random: u64) -> Option<(Vec<FieldMatch>, i32)> {
        let entries = &self.tables[table];
        let ((key, priority), _) = entries.iter().nth((random as usize).checked_rem(entries.len())?)?;
        Some((show_key(TABLES[table].keys, key), *priority))
    }

    /// The number of entries of a table.
    pub fn len(&self, table: usize) -> usize {
        self.tables[table].len()
    }

    /// The one shots of a profile.
    pub fn one_shots(&self, profile: usize) -> usize {
        let sets = self.tables[PROFILES[profile].table].values();
        sets.filter(|entry| matches!(entry.act, Act::Set(..))).count()
    }

    pub fn has_members(&self, profile: usize) -> bool {
        !self.members[profile].is_empty() || !self.groups[profile].is_empty()
    }

    fn call(
        &self,
        table: &TableSpec,
        given: Option<&v1::Action>,
        as_default: bool,
        faults: &mut Faults,
    ) -> Call {
        let mut call = Call { name: "", arguments: Vec::new() };
        let Some(given) = given else {
            faults.form.push(INVALID);
            return call;
        };
        let name = self.ids.get(&given.action_id).copied().unwrap_or("");
        let Some((name, scope)) = table.actions.iter().find(|(listed, _)| *listed == name) else {
            faults.form.push(INVALID);
            return call;
        };
        let denied = if as_default { Scope::Table } else { Scope::Default };
        faults.form(*scope == denied, DENIED);
        let params = params(name);
        call = Call { name, arguments: vec![0; params.len()] };
        let mut known = HashSet::new();
        for param in &given.params {
            let place = param.param_id.wrapping_sub(1) as usize;
            faults.form(place >= params.len() || !known.insert(place), INVALID);
            if let Some((width, outer_width)) = params.get(place) {
                match translated(&param.value, *width, *outer_width) {
                    Ok(value) => call.arguments[place] = value,
                    Err(code) => faults.form.push(code),
                }
            }
        }
        faults.form(known.len() < params.len(), INVALID);
        if *name == "classify" && !as_default {
            let class = call.arguments[0];
            faults.form(class == 0 || class >= 200 && class != 255, INVALID);
        }
        call
    }

    fn act(&self, table: usize, given: &TableAction, old: Option<&Act>, faults: &mut Faults) -> Act {
        let spec = &TABLES[table];
        let none = Act::Member(0);
        let mut wrong = || {
            faults.form.push(INVALID);
            none.clone()
        };
        let profile = spec.profile.map(|profile| (profile, &PROFILES[profile]));
        match (&given.r#type, profile) {
            (Some(TableActionType::Action(action)), None) => {
                Act::Action(self.call(spec, Some(action), false, faults))
            }
            (Some(TableActionType::ActionProfileMemberId(id)), Some((profile, of))) => {
                faults.form(*id == 0, INVALID);
                faults.state(of.selector && self.one_shots(profile) > 0, INVALID);
                faults.state(!self.members[profile].contains_key(id), ABSENT);
                Act::Member(*id)
            }
            (Some(TableActionType::ActionProfileGroupId(id)), Some((profile, of))) if of.selector => {
                faults.form(*id == 0, INVALID);
                faults.state(self.one_shots(profile) > 0, INVALID);
                faults.state(!self.groups[profile].contains_key(id), ABSENT);
                Act::Group(*id)
            }
            (Some(TableActionType::ActionProfileActionSet(set)), Some((profile, of))) if of.selector => {
                faults.form(set.action_selection_mode == 2, UNIMPLEMENTED);
                faults.form(!(0..=2).contains(&set.action_selection_mode), INVALID);
                faults.form(!(0..=2).contains(&set.size_semantics), INVALID);
                let weights: Vec<i32> = set.action_profile_actions.iter().map(|a| a.weight).collect();
                let members = match set.size_semantics {
                    1 => false,
                    2 => true,
                    _ => of.counts_members.is_some(),
                };
                check_weights(of, &weights, of.max_group_size, members, faults);
                let mut calls = Vec::new();
                for action in &set.action_profile_actions {
                    check_watch(action.watch_kind.as_ref(), faults);
                    calls.push(self.call(spec, action.action.as_ref(), false, faults));
                }
                faults.state(self.has_members(profile), INVALID);
                let weights = |set: &v1::ActionProfileActionSet| -> Vec<i32> {
                    set.action_profile_actions.iter().map(|action| action.weight).collect()
                };
                let of_set = |act: &Act| match act {
                    Act::Set(_, set) => (weights(set).len(), of.size_of(&weights(set))),
                    _ => (0, 0),
                };
                let used = |part: fn((usize, i64)) -> i64, new: i64| {
                    let all: i64 = self.tables[table].values().map(|entry| part(of_set(&entry.act))).sum();
                    all - old.map_or(0, |old| part(of_set(old))) + new
                };
                faults.state(used(|(members, _)| members as i64, calls.len() as i64) > of.size as i64, FULL);
                faults.state(used(|(_, size)| size, of.size_of(&weights(set))) > of.size as i64, FULL);
                Act::Set(calls, set.clone())
            }
            _ => wrong(),
        }
    }

    /// The possible codes of the answer to an update; `[0]` if it succeeds.
    pub fn update(&mut self, kind: UpdateType, of: &EntityKind) -> Vec<i32> {
        if kind == UpdateType::Unspecified {
            return vec![INVALID];
        }
        let done = match of {
            EntityKind::TableEntry(entry) if entry.is_default_action => self.default_entry(kind, entry),
            EntityKind::TableEntry(entry) => self.table_entry(kind, entry),
            EntityKind::ActionProfileMember(member) => self.member(kind, member),
            EntityKind::ActionProfileGroup(group) => self.group(kind, group),
            EntityKind::PacketReplicationEngineEntry(entry) => self.replication(kind, entry),
            EntityKind::DigestEntry(entry) => self.digest(kind, entry),
            EntityKind::ValueSetEntry(entry) => self.value_set(kind, entry),
            _ => self.cell(kind, of),
        };
        done.map_or_else(|codes| codes, |()| vec![0])
    }

    fn beside(spec: &TableSpec, entry: &TableEntry, faults: &mut Faults) {
        faults.form(entry.is_const || entry.time_since_last_hit.is_some(), INVALID);
        faults.form(entry.idle_timeout_ns < 0 || !spec.direct && entry.idle_timeout_ns != 0, INVALID);
        let has_direct = entry.counter_data.is_some() || entry.meter_config.is_some();
        faults.form(!spec.direct && has_direct, INVALID);
        faults.form(entry.counter_data.as_ref().is_some_and(|data| !check_count(data)), INVALID);
        faults.form(entry.meter_config.as_ref().is_some_and(|config| !check_meter(config)), INVALID);
    }

    fn default_entry(&mut self, kind: UpdateType, entry: &TableEntry) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let table = self.find(TABLES, entry.table_id, |table| table.name).ok_or(vec![INVALID])?;
        let spec = &TABLES[table];
        faults.form(kind != UpdateType::Modify, INVALID);
        faults.form(!entry.r#match.is_empty() || entry.priority != 0 || entry.idle_timeout_ns != 0, INVALID);
        Model::beside(spec, entry, &mut faults);
        faults.state(spec.const_default || spec.profile.is_some(), DENIED);
        let call = entry.action.as_ref().filter(|_| faults.state.is_empty()).map(|act| {
            let action = match &act.r#type {
                Some(TableActionType::Action(action)) => Some(action),
                _ => None,
            };
            self.call(spec, action, true, &mut faults)
        });
        faults.codes()?;
        let now = &mut self.defaults[table];
        if call.is_none() {
            now.counter = CounterData::default();
        }
        now.act = Act::Action(call.unwrap_or(Call { name: spec.default, arguments: Vec::new() }));
        now.counter = entry.counter_data.clone().unwrap_or(now.counter.clone());
        now.meter = entry.meter_config.clone();
        now.metadata = entry.metadata.clone();
        now.cookie = entry.controller_metadata;
        Ok(())
    }

    fn table_entry(&mut self, kind: UpdateType, entry: &TableEntry) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let table = self.find(TABLES, entry.table_id, |table| table.name).ok_or(vec![INVALID])?;
        let spec = &TABLES[table];
        faults.form(spec.keys.is_empty() || entry.is_const, INVALID);
        let key = read_key(spec.keys, &entry.r#match, &mut faults);
        let has_priority = spec.has_priority();
        faults.form(if has_priority { entry.priority <= 0 } else { entry.priority != 0 }, INVALID);
        let at = (key, entry.priority);
        let old = self.tables[table].get(&at).filter(|_| faults.form.is_empty()).cloned();
        if kind == UpdateType::Delete {
            faults.state(old.is_none(), ABSENT);
            faults.state(old.is_some_and(|old| old.is_const), DENIED);
            faults.codes()?;
            self.tables[table].remove(&at);
            return Ok(());
        }
        Model::beside(spec, entry, &mut faults);
        if spec.name == "acl" && faults.form.is_empty() {
            let is_tcp = at.0[1] == Match::Optional(Some(6));
            faults.form(at.0[2] != Match::Ternary(0, 0) && !is_tcp || entry.priority <= 9, INVALID);
        }
        let is_new = kind == UpdateType::Insert;
        faults.form(is_new && entry.action.is_none(), INVALID);
        let act = entry.action.as_ref().map(|act| {
            let replaced = old.as_ref().filter(|_| !is_new);
            self.act(table, act, replaced.map(|old| &old.act), &mut faults)
        });
        if is_new {
            faults.state(spec.is_const, DENIED);
            faults.state(old.is_some(), EXISTS);
            faults.state(self.tables[table].len() >= spec.size, FULL);
        } else {
            faults.state(old.is_none(), ABSENT);
            faults.state(old.as_ref().is_some_and(|old| old.is_const) && act.is_some(), DENIED);
        }
        faults.codes()?;
        let before = old.as_ref().map(|old| (old.act.clone(), old.counter.clone(), old.is_const));
        let (before, counter, is_const) = before.unwrap_or((Act::Member(0), CounterData::default(), false));
        let new = Entry {
            act: act.unwrap_or(before),
            is_const,
            metadata: entry.metadata.clone(),
            cookie: entry.controller_metadata,
            idle_timeout_ns: entry.idle_timeout_ns,
            counter: entry.counter_data.clone().unwrap_or(counter),
            meter: entry.meter_config.clone(),
        };
        self.tables[table].insert(at, new);
        Ok(())
    }

    fn member(&mut self, kind: UpdateType, member: &ActionProfileMember) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let profile = self.find(PROFILES, member.action_profile_id, |p| p.name).ok_or(vec![INVALID])?;
        let (spec, id) = (&PROFILES[profile], member.member_id);
        faults.form(id == 0, INVALID);
        let is_there = self.members[profile].contains_key(&id);
        if kind == UpdateType::Delete {
            let mut in_groups = self.groups[profile].values().flat_map(|group| &group.members);
            let mut in_entries = self.tables[spec.table].values();
            let is_used =
                in_groups.any(|m| m.member_id == id) || in_entries.any(|e| e.act == Act::Member(id));
            faults.state(!is_there, ABSENT);
            faults.state(is_there && is_used, IN_USE);
            faults.codes()?;
            self.members[profile].remove(&id);
            return Ok(());
        }
        let call = self.call(&TABLES[spec.table], member.action.as_ref(), false, &mut faults);
        if kind == UpdateType::Insert {
            faults.state(is_there, EXISTS);
            faults.state(self.one_shots(profile) > 0, INVALID);
            faults.state(self.members[profile].len() >= spec.size, FULL);
        } else {
            faults.state(!is_there, ABSENT);
        }
        faults.codes()?;
        self.members[profile].insert(id, call);
        Ok(())
    }

    fn group(&mut self, kind: UpdateType, group: &ActionProfileGroup) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let profile = self.find(PROFILES, group.action_profile_id, |p| p.name).ok_or(vec![INVALID])?;
        let (spec, id) = (&PROFILES[profile], group.group_id);
        faults.form(!spec.selector || id == 0, INVALID);
        let old = self.groups[profile].get(&id);
        if kind == UpdateType::Delete {
            let is_used = self.tables[spec.table].values().any(|entry| entry.act == Act::Group(id));
            faults.state(old.is_none(), ABSENT);
            faults.state(old.is_some() && is_used, IN_USE);
            faults.codes()?;
            self.groups[profile].remove(&id);
            return Ok(());
        }
        faults.form(group.max_size < 0 || group.max_size > spec.max_group_size, INVALID);
        let mut max_size = group.max_size;
        if kind == UpdateType::Modify
            && let Some(old) = old
        {
            faults.form(max_size != 0 && max_size != old.max_size, INVALID);
            max_size = old.max_size;
        }
        let known: HashSet<u32> = group.members.iter().map(|m| m.member_id).collect();
        faults.form(known.len() < group.members.len(), INVALID);
        let weights: Vec<i32> = group.members.iter().map(|m| m.weight).collect();
        let limit = if max_size > 0 { max_size } else { spec.max_group_size };
        check_weights(spec, &weights, limit, spec.counts_members.is_some(), &mut faults);
        group.members.iter().for_each(|m| check_watch(m.watch_kind.as_ref(), &mut faults));
        faults.state(known.iter().any(|id| !self.members[profile].contains_key(id)), ABSENT);
        if kind == UpdateType::Insert {
            faults.state(old.is_some(), EXISTS);
            faults.state(self.one_shots(profile) > 0, INVALID);
        } else {
            faults.state(old.is_none(), ABSENT);
        }
        let of_group = |group: &ActionProfileGroup| {
            spec.size_of(&group.members.iter().map(|member| member.weight).collect::<Vec<_>>())
        };
        let others = self.groups[profile].iter().filter(|(other, _)| **other != id);
        let all = others.map(|(_, other)| of_group(other)).sum::<i64>() + of_group(group);
        faults.state(all > spec.size as i64, FULL);
        faults.codes()?;
        self.groups[profile].insert(id, ActionProfileGroup { max_size, ..group.clone() });
        Ok(())
    }

    fn replication(
        &mut self,
        kind: UpdateType,
        entry: &PacketReplicationEngineEntry,
    ) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let existence = |is_there: bool, faults: &mut Faults| match kind {
            UpdateType::Insert => faults.state(is_there, EXISTS),
            _ => faults.state(!is_there, ABSENT),
        };
        match entry.r#type.as_ref().ok_or(vec![INVALID])? {
            ReplicationType::MulticastGroupEntry(group) => {
                let id = group.multicast_group_id;
                faults.form(id == 0, INVALID);
                faults.form(id > 65_535, RANGE);
                existence(self.multicast.contains_key(&id), &mut faults);
                if kind == UpdateType::Delete {
                    faults.codes()?;
                    self.multicast.remove(&id);
                    return Ok(());
                }
                let replicas = read_replicas(&group.replicas, &mut faults);
                faults.codes()?;
                self.multicast.insert(id, MulticastGroupEntry { replicas, ..group.clone() });
            }
            ReplicationType::CloneSessionEntry(session) => {
                let id = session.session_id;
                faults.form(id == 0 || id > 32_767, INVALID);
                existence(self.sessions.contains_key(&id), &mut faults);
                if kind == UpdateType::Delete {
                    faults.codes()?;
                    self.sessions.remove(&id);
                    return Ok(());
                }
                faults.form(session.class_of_service > 7 || session.packet_length_bytes < 0, INVALID);
                let replicas = read_replicas(&session.replicas, &mut faults);
                faults.codes()?;
                self.sessions.insert(id, CloneSessionEntry { replicas, ..session.clone() });
            }
        }
        Ok(())
    }

    fn digest(&mut self, kind: UpdateType, entry: &DigestEntry) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        faults.form(self.ids.get(&entry.digest_id) != Some(&"learned_t"), INVALID);
        if kind == UpdateType::Delete {
            faults.state(self.digest.is_none(), ABSENT);
            faults.codes()?;
            self.digest = None;
            return Ok(());
        }
        let config = entry.config.clone().unwrap_or_default();
        let least = i64::from(config.max_list_size).min(config.max_timeout_ns).min(config.ack_timeout_ns);
        faults.form(least < 0, INVALID);
        match kind {
            UpdateType::Insert => faults.state(self.digest.is_some(), EXISTS),
            _ => faults.state(self.digest.is_none(), ABSENT),
        }
        faults.codes()?;
        self.digest = Some(config);
        Ok(())
    }

    fn value_set(&mut self, kind: UpdateType, entry: &ValueSetEntry) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        let set = self.find(&["known", "kinds"], entry.value_set_id, |name| *name).ok_or(vec![INVALID])?;
        faults.form(kind != UpdateType::Modify, INVALID);
        faults.form(entry.members.len() > [4, 2][set], FULL);
        let read = |member: &ValueSetMember| read_key(SETS[set], &member.r#match, &mut faults);
        let members: Vec<_> = entry.members.iter().map(read).collect();
        let known: HashSet<_> = members.iter().collect();
        faults.state(known.len() < members.len(), EXISTS);
        faults.codes()?;
        self.sets[set] = members;
        Ok(())
    }

    /// The entry of a direct counter or meter.
    fn direct(&mut self, given: Option<&TableEntry>, faults: &mut Faults) -> Option<&mut Entry> {
        let Some(given) = given else {
            faults.form.push(INVALID);
            return None;
        };
        let table = self.find(TABLES, given.table_id, |table| table.name);
        faults.form(table != Some(AGED), INVALID);
        if given.is_default_action {
            return Some(&mut self.defaults[AGED]);
        }
        let key = read_key(TABLES[AGED].keys, &given.r#match, faults);
        let found = self.tables[AGED].get_mut(&(key, 0));
        faults.state(found.is_none(), ABSENT);
        found
    }

    fn cell(&mut self, kind: UpdateType, of: &EntityKind) -> Result<(), Vec<i32>> {
        let mut faults = Faults::default();
        faults.form(kind != UpdateType::Modify, INVALID);
        match of {
            EntityKind::CounterEntry(entry) => {
                let found = self.find(&["seen", "few"], entry.counter_id, |name| *name);
                let counter = found.ok_or(vec![INVALID])?;
                let cells = check_index(entry.index.as_ref(), self.counters[counter].len(), &mut faults);
                faults.form(entry.data.as_ref().is_some_and(|data| !check_count(data)), INVALID);
                faults.codes()?;
                if let Some(data) = &entry.data {
                    let byte_count = if counter == 1 { 0 } else { data.byte_count };
                    self.counters[counter][cells].fill(CounterData { byte_count, ..data.clone() });
                }
            }
            EntityKind::MeterEntry(entry) => {
                faults.form(self.ids.get(&entry.meter_id) != Some(&"rates"), INVALID);
                let cells = check_index(entry.index.as_ref(), 8, &mut faults);
                faults.form(entry.config.as_ref().is_some_and(|config| !check_meter(config)), INVALID);
                faults.codes()?;
                self.meters[cells].fill(entry.config.clone());
            }
            EntityKind::RegisterEntry(entry) => {
                faults.form(self.ids.get(&entry.register_id) != Some(&"stamps"), INVALID);
                let cells = check_index(entry.index.as_ref(), 8, &mut faults);
                let mut value = 0;
                match entry.data.as_ref().and_then(|data| data.data.as_ref()) {
                    Some(v1::DataValue::Bitstring(bytes)) => match number(bytes, 48) {
                        Ok(read) => value = read,
                        Err(code) => faults.form.push(code),
                    },
                    _ => faults.form.push(INVALID),
                }
                faults.codes()?;
                self.stamps[cells].fill(value);
            }
            EntityKind::DirectCounterEntry(entry) => {
                faults.form(entry.data.as_ref().is_some_and(|data| !check_count(data)), INVALID);
                let found = self.direct(entry.table_entry.as_ref(), &mut faults);
                faults.codes()?;
                if let (Some(found), Some(data)) = (found, &entry.data) {
                    found.counter = data.clone();
                }
            }
            EntityKind::DirectMeterEntry(entry) => {
                faults.form(entry.config.as_ref().is_some_and(|config| !check_meter(config)), INVALID);
                let found = self.direct(entry.table_entry.as_ref(), &mut faults);
                faults.codes()?;
                if let Some(found) = found {
                    found.meter = entry.config.clone();
                }
            }
            other => panic!("the model has no {other:?}"),
        }
        Ok(())
    }

    fn show_call(f: &Ids, call: &Call) -> v1::Action {
        let params = (1..).zip(&call.arguments);
        let params = params.map(|(param_id, value)| v1::ActionParam { param_id, value: short(*value) });
        v1::Action { action_id: f[call.name], params: params.collect() }
    }

    fn show_entry(ids: &Ids, spec: &TableSpec, entry: &Entry) -> TableEntry {
        let act = match &entry.act {
            Act::Action(call) => TableActionType::Action(Self::show_call(ids, call)),
            Act::Member(id) => TableActionType::ActionProfileMemberId(*id),
            Act::Group(id) => TableActionType::ActionProfileGroupId(*id),
            Act::Set(calls, given) => {
                let actions = calls.iter().zip(&given.action_profile_actions).map(|(call, given)| {
                    ActionProfileAction { action: Some(Self::show_call(ids, call)), ..given.clone() }
                });
                let action_profile_actions = actions.collect();
                TableActionType::ActionProfileActionSet(ActionProfileActionSet {
                    action_profile_actions,
                    ..given.clone()
                })
            }
        };
        TableEntry {
            table_id: ids[spec.name],
            action: Some(TableAction { r#type: Some(act) }),
            controller_metadata: entry.cookie,
            metadata: entry.metadata.clone(),
            idle_timeout_ns: entry.idle_timeout_ns,
            is_const: entry.is_const,
            counter_data: spec.direct.then(|| entry.counter.clone()),
            meter_config: entry.meter.clone(),
            ..TableEntry::default()
        }
    }

    /// Everything that clients can read, in the form of [`super::read_all`].
    pub fn show(&self) -> Vec<String> {
        let ids: Ids = self.ids.iter().map(|(id, name)| (*name, *id)).collect();
        let mut all = Vec::new();
        for ((spec, entries), default) in TABLES.iter().zip(&self.tables).zip(&self.defaults) {
            for ((key, priority), entry) in entries {
                let (r#match, priority) = (show_key(spec.keys, key), *priority);
                let shown = TableEntry { r#match, priority, ..Self::show_entry(&ids, spec, entry) };
                all.push(EntityKind::TableEntry(shown));
            }
            let default = TableEntry { is_default_action: true, ..Self::show_entry(&ids, spec, default) };
            all.push(EntityKind::TableEntry(default));
        }
        for ((spec, members), groups) in PROFILES.iter().zip(&self.members).zip(&self.groups) {
            let action_profile_id = ids[spec.name];
            all.extend(members.iter().map(|(member_id, call)| {
                let (member_id, action) = (*member_id, Some(Self::show_call(&ids, call)));
                EntityKind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id, action })
            }));
            all.extend(groups.values().cloned().map(EntityKind::ActionProfileGroup));
        }
        let replication =
            |of| EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) });
        let groups = self.multicast.values().cloned().map(ReplicationType::MulticastGroupEntry);
        let sessions = self.sessions.values().cloned().map(ReplicationType::CloneSessionEntry);
        all.extend(groups.chain(sessions).map(replication));
        let at = |index: usize| Some(Index { index: index as i64 });
        for (name, cells) in ["seen", "few"].into_iter().zip(&self.counters) {
            all.extend(cells.iter().enumerate().map(|(index, data)| {
                let (counter_id, index, data) = (ids[name], at(index), Some(data.clone()));
                EntityKind::CounterEntry(CounterEntry { counter_id, index, data })
            }));
        }
        all.extend(self.meters.iter().enumerate().map(|(index, config)| {
            let (meter_id, index, config) = (ids["rates"], at(index), config.clone());
            EntityKind::MeterEntry(MeterEntry { meter_id, index, config, counter_data: None })
        }));
        all.extend(self.stamps.iter().enumerate().map(|(index, value)| {
            let data = Some(P4Data { data: Some(v1::DataValue::Bitstring(short(*value))) });
            let (register_id, index) = (ids["stamps"], at(index));
            EntityKind::RegisterEntry(RegisterEntry { register_id, index, data })
        }));
        for ((name, members), keys) in ["known", "kinds"].into_iter().zip(&self.sets).zip(SETS) {
            let members = members.iter().map(|m| ValueSetMember { r#match: show_key(keys, m) }).collect();
            let value_set_id = ids[name];
            all.push(EntityKind::ValueSetEntry(ValueSetEntry { value_set_id, members }));
        }
        all.extend(self.digest.clone().map(|config| {
            let (digest_id, config) = (ids["learned_t"], Some(config));
            EntityKind::DigestEntry(DigestEntry { digest_id, config })
        }));
        in_order(all)
    }
}

type Ids = HashMap<&'static str, u32>;

/// The keys of the value sets `known` and `kinds`.
const SETS: [&[Key]; 2] = [&[key(Kind::Ternary, 8), key(Kind::Exact, 32)], &[key(Kind::Exact, 16)]];

/// Entities as texts, sorted.
pub fn in_order(all: Vec<EntityKind>) -> Vec<String> {
    let text = |mut of: EntityKind| {
        if let EntityKind::ValueSetEntry(set) = &mut of {
            set.members.sort_by_cached_key(|member| format!("{member:?}"));
        }
        format!("{of:?}")
    };
    let mut all: Vec<String> = all.into_iter().map(text).collect();
    all.sort_unstable();
    all
}
