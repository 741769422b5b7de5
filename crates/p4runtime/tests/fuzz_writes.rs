//! Random updates, most of them right and the others wrong in one way, against an independent model of the specification
//! (common/model.rs), which predicts each answer and what a Read returns afterwards.
//!
//! UPDATES sets the number of updates, SEED the first random number. A failure names the seed.

#[path = "common/model.rs"]
mod model;

use crate::common::{Around, Fixture, bytes, exact, lpm, optional, range, string, ternary};
use model::{Kind, Model, TABLES};
use p4jet_control::{ControlError, PortStats};
use p4jet_p4info::proto::v1::{
    self, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, Atomicity,
    BackupReplica, CloneSessionEntry, CounterData, CounterEntry, DigestConfig, DigestEntry,
    DirectCounterEntry, DirectMeterEntry, Entity, EntityKind, FieldMatch, FieldMatchType, GroupMember,
    IdleTimeout, Index, MeterConfig, MeterEntry, MulticastGroupEntry, P4Data, PacketReplicationEngineEntry,
    PortKind, RegisterEntry, Replica, ReplicationType, TableAction, TableActionType, TableEntry, Update,
    UpdateType, ValueSetEntry, ValueSetMember, WatchKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 33) % bound
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// A host whose packets can be held: there are none.
struct NoPackets;

impl Around for NoPackets {
    fn ports(&self) -> Vec<PortStats> {
        let port = |port| PortStats { port, spec: "mem".to_string(), up: true, ..PortStats::default() };
        (0..16).map(port).collect()
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        change();
        Ok(())
    }
}

/// Generates updates.
struct Maker<'a> {
    random: Random,
    f: &'a Fixture,
}

const VRFS: [&str; 6] = ["red", "blue", "green", "vrf-with-a-longer-name", "ä", "Ethernet0"];

impl Maker<'_> {
    /// A number with zero bytes before it, sometimes.
    fn padded(&mut self, value: bytes::Bytes) -> bytes::Bytes {
        match self.random.below(6) {
            0 => [&[0][..], &value].concat().into(),
            1 => [&[0; 5][..], &value].concat().into(),
            _ => value,
        }
    }

    fn number(&mut self, bound: u64) -> bytes::Bytes {
        let value = self.random.below(bound);
        self.padded(bytes(value))
    }

    fn optional_metadata(&mut self) -> bytes::Bytes {
        match self.random.below(4) {
            0 => vec![self.random.below(200) as u8; self.random.below(20) as usize].into(),
            _ => bytes::Bytes::new(),
        }
    }

    fn action(&mut self, table: &model::TableSpec, as_default: bool) -> v1::Action {
        let usable = |(_, scope): &&(&str, model::Scope)| match scope {
            model::Scope::Both => true,
            model::Scope::Table => !as_default,
            model::Scope::Default => as_default,
        };
        let usable: Vec<_> = table.actions.iter().filter(usable).collect();
        let (name, _) = **self.random.pick(&usable);
        let mut arguments = Vec::new();
        for &(width, _) in model::params(name) {
            let bound = match name {
                "classify" => 199,
                "tag" => 4096,
                _ => 1u64 << width.min(40),
            };
            // Class 0 is refused.
            arguments.push(self.random.below(bound) + u64::from(name == "classify"));
        }
        let mut action = self.f.action(name, &arguments);
        for param in &mut action.params {
            param.value = self.padded(param.value.clone());
        }
        if self.random.one_in(3) {
            action.params.reverse();
        }
        action
    }

    fn act(&mut self, table: &model::TableSpec, model: &Model) -> TableAction {
        let kind = match table.profile {
            None => TableActionType::Action(self.action(table, false)),
            Some(profile) => {
                let spec = &model::PROFILES[profile];
                let one_shot = spec.selector && model.one_shots(profile) > 0
                    || spec.selector && !model.has_members(profile) && self.random.one_in(2);
                if one_shot {
                    self.one_shot(table)
                } else if spec.selector && self.random.one_in(2) {
                    TableActionType::ActionProfileGroupId(1 + self.random.below(6) as u32)
                } else {
                    TableActionType::ActionProfileMemberId(1 + self.random.below(8) as u32)
                }
            }
        };
        TableAction { r#type: Some(kind) }
    }

    fn watch(&mut self) -> Option<WatchKind> {
        match self.random.below(6) {
            0 => Some(WatchKind::WatchPort(bytes(1 + self.random.below(15)))),
            1 => Some(WatchKind::Watch(1 + self.random.below(15) as i32)),
            _ => None,
        }
    }

    fn one_shot(&mut self, table: &model::TableSpec) -> TableActionType {
        let count = self.random.below(4);
        let mut actions = Vec::new();
        for _ in 0..count {
            let action = Some(self.action(table, false));
            let weight = 1 + self.random.below(2) as i32;
            actions.push(ActionProfileAction { action, weight, watch_kind: self.watch() });
        }
        TableActionType::ActionProfileActionSet(ActionProfileActionSet {
            action_profile_actions: actions,
            action_selection_mode: self.random.below(2) as i32,
            size_semantics: 0,
            group_action: None,
        })
    }

    fn key(&mut self, table: &model::TableSpec) -> Vec<FieldMatch> {
        let mut key = Vec::new();
        let few = table.few;
        for (name, field) in table.keys.iter().zip(1..) {
            let width = name.width;
            let bound = (1u64 << width.min(20)).min(few);
            let value = self.random.below(bound);
            let left_out = name.kind != Kind::Exact && self.random.one_in(3);
            if left_out {
                continue;
            }
            key.push(match name.kind {
                Kind::Exact if name.is_string => string(field, VRFS[self.random.below(6) as usize]),
                Kind::Exact => exact(field, value),
                Kind::Lpm => {
                    let len = *self.random.pick(&[8, 16, 24, 32]);
                    lpm(field, (self.random.below(few) << 24) & (u64::from(u32::MAX) << (32 - len)), len)
                }
                Kind::Ternary if name.outer_width > name.width => ternary(field, value, u64::from(u32::MAX)),
                Kind::Ternary => {
                    let mask = *self.random.pick(&[0xffu64, 0xf0, 0x0f, 1]);
                    ternary(field, value & mask, mask)
                }
                Kind::Range => range(field, value, value + self.random.below(100)),
                Kind::Optional => optional(field, *self.random.pick(&[6, 6, 17, value])),
            });
        }
        for field in &mut key {
            if let Some(FieldMatchType::Exact(exact)) = &mut field.field_match_type
                && !table.keys[field.field_id as usize - 1].is_string
            {
                exact.value = self.padded(exact.value.clone());
            }
        }
        if self.random.one_in(4) {
            key.reverse();
        }
        key
    }

    fn config(&mut self) -> MeterConfig {
        let cir = self.random.below(1_000_000) as i64;
        let pir = cir + self.random.below(1_000_000) as i64;
        let (cburst, pburst) = (self.random.below(1000) as i64, self.random.below(1000) as i64);
        MeterConfig { cir, cburst, pir, pburst, eburst: 0 }
    }

    fn data(&mut self) -> CounterData {
        CounterData {
            byte_count: self.random.below(1 << 30) as i64,
            packet_count: self.random.below(1 << 30) as i64,
        }
    }

    fn table_entry(&mut self, model: &Model) -> (UpdateType, EntityKind) {
        let table = self.random.below(TABLES.len() as u64) as usize;
        let spec = &TABLES[table];
        let mut kind = *self.random.pick(&[
            UpdateType::Insert,
            UpdateType::Insert,
            UpdateType::Insert,
            UpdateType::Modify,
            UpdateType::Delete,
        ]);
        if self.random.one_in(8) && spec.profile.is_none() && !spec.const_default {
            return (UpdateType::Modify, self.default_entry(spec));
        }
        let mut entry = TableEntry {
            table_id: self.f.table(spec.name),
            r#match: self.key(spec),
            priority: if spec.has_priority() { 10 + self.random.below(3) as i32 } else { 0 },
            metadata: self.optional_metadata(),
            controller_metadata: self.random.below(2) * 77,
            ..TableEntry::default()
        };
        // Usually an existing entry.
        if kind != UpdateType::Insert
            && self.random.below(4) > 0
            && let Some((key, priority)) = model.some_key(table, self.random.next())
        {
            (entry.r#match, entry.priority) = (key, priority);
        }
        if model.len(table) > 500 && self.random.one_in(2) {
            kind = UpdateType::Delete;
        }
        if spec.is_const && !self.random.one_in(6) || self.random.one_in(3) && kind == UpdateType::Modify {
            kind = UpdateType::Modify;
        } else if kind != UpdateType::Delete || self.random.one_in(3) {
            entry.action = Some(self.act(spec, model));
        }
        if kind == UpdateType::Delete && self.random.one_in(3) {
            // W-7: nothing but the key counts.
            entry.action = Some(TableAction { r#type: None });
            (entry.idle_timeout_ns, entry.meter_config) = (-1, Some(MeterConfig::default()));
            entry.time_since_last_hit = Some(IdleTimeout::default());
        } else if spec.direct {
            entry.idle_timeout_ns = self.random.below(3) as i64 * 1_500_000_001;
            entry.meter_config = self.random.one_in(2).then(|| self.config());
            entry.counter_data = self.random.one_in(2).then(|| self.data());
        }
        (kind, EntityKind::TableEntry(entry))
    }

    fn default_entry(&mut self, spec: &model::TableSpec) -> EntityKind {
        let action = TableActionType::Action(self.action(spec, true));
        EntityKind::TableEntry(TableEntry {
            table_id: self.f.table(spec.name),
            is_default_action: true,
            action: self.random.below(3).gt(&0).then_some(TableAction { r#type: Some(action) }),
            metadata: self.optional_metadata(),
            meter_config: (spec.direct && self.random.one_in(2)).then(|| self.config()),
            counter_data: (spec.direct && self.random.one_in(2)).then(|| self.data()),
            ..TableEntry::default()
        })
    }

    fn kind(&mut self) -> UpdateType {
        *self.random.pick(&[UpdateType::Insert, UpdateType::Insert, UpdateType::Modify, UpdateType::Delete])
    }

    fn replicas(&mut self) -> Vec<Replica> {
        let mut all = Vec::new();
        for instance in 0..self.random.below(4) as u32 {
            let port = self.random.below(500);
            let port_kind = match self.random.below(2) {
                0 => PortKind::EgressPort(port as u32),
                _ => PortKind::Port(self.padded(bytes(port))),
            };
            let backups = (0..self.random.below(3))
                .map(|n| BackupReplica { port: bytes((port + n + 1) % 511), instance: instance + 10 });
            let backup_replicas = if self.random.one_in(3) { backups.collect() } else { Vec::new() };
            all.push(Replica { port_kind: Some(port_kind), instance, backup_replicas });
        }
        all
    }

    /// An update of the right form; the state may refuse it.
    fn update(&mut self, model: &Model) -> (UpdateType, EntityKind) {
        match self.random.below(20) {
            0 => {
                let profile = self.random.below(3) as usize;
                let spec = &TABLES[model::PROFILES[profile].table];
                let member = ActionProfileMember {
                    action_profile_id: self.f.profile(model::PROFILES[profile].name),
                    member_id: 1 + self.random.below(8) as u32,
                    action: Some(self.action(spec, false)),
                };
                (self.kind(), EntityKind::ActionProfileMember(member))
            }
            1 => {
                let profile = self.random.below(2) as usize;
                let mut members = Vec::new();
                let first = 1 + self.random.below(6) as u32;
                for n in 0..self.random.below(4) as u32 {
                    let weight = 1 + self.random.below(2) as i32;
                    members.push(GroupMember { member_id: first + n, weight, watch_kind: self.watch() });
                }
                let group = ActionProfileGroup {
                    action_profile_id: self.f.profile(model::PROFILES[profile].name),
                    group_id: 1 + self.random.below(6) as u32,
                    members,
                    max_size: *self.random.pick(&[0, 0, 3]),
                };
                (self.kind(), EntityKind::ActionProfileGroup(group))
            }
            2 => {
                let group = MulticastGroupEntry {
                    multicast_group_id: 1 + self.random.below(40) as u32,
                    replicas: self.replicas(),
                    metadata: self.optional_metadata(),
                };
                (self.kind(), replication(ReplicationType::MulticastGroupEntry(group)))
            }
            3 => {
                let session = CloneSessionEntry {
                    session_id: 1 + self.random.below(40) as u32,
                    replicas: self.replicas(),
                    class_of_service: self.random.below(8) as u32,
                    packet_length_bytes: *self.random.pick(&[0, 64, 1500]),
                };
                (self.kind(), replication(ReplicationType::CloneSessionEntry(session)))
            }
            4 => {
                let (name, size) = *self.random.pick(&[("seen", 16), ("few", 4)]);
                let index = Index { index: self.random.below(size) as i64 };
                let counter = CounterEntry {
                    counter_id: self.f.counter(name),
                    index: (!self.random.one_in(10)).then_some(index),
                    data: (!self.random.one_in(10)).then(|| self.data()),
                };
                (UpdateType::Modify, EntityKind::CounterEntry(counter))
            }
            5 => {
                let index = Index { index: self.random.below(8) as i64 };
                let meter = MeterEntry {
                    meter_id: self.f.meter("rates"),
                    index: (!self.random.one_in(10)).then_some(index),
                    config: (!self.random.one_in(4)).then(|| self.config()),
                    counter_data: None,
                };
                (UpdateType::Modify, EntityKind::MeterEntry(meter))
            }
            6 | 7 => {
                let key = model.some_key(model::AGED, self.random.next());
                let (r#match, _) = key.unwrap_or_default();
                let mut entry =
                    TableEntry { table_id: self.f.table("aged"), r#match, ..TableEntry::default() };
                if entry.r#match.is_empty() || self.random.one_in(6) {
                    (entry.r#match, entry.is_default_action) = (Vec::new(), true);
                }
                let table_entry = Some(entry);
                let of = match self.random.below(2) {
                    0 => {
                        let data = (!self.random.one_in(6)).then(|| self.data());
                        EntityKind::DirectCounterEntry(DirectCounterEntry { table_entry, data })
                    }
                    _ => {
                        let config = (!self.random.one_in(3)).then(|| self.config());
                        EntityKind::DirectMeterEntry(DirectMeterEntry {
                            table_entry,
                            config,
                            counter_data: None,
                        })
                    }
                };
                (UpdateType::Modify, of)
            }
            8 => {
                let mut members = Vec::new();
                let name = *self.random.pick(&["known", "kinds"]);
                for n in 0..self.random.below(3) {
                    let r#match = match name {
                        "kinds" => vec![exact(1, 2 * self.random.below(30) + n % 2)],
                        _ if self.random.one_in(3) => vec![exact(2, 3 * self.random.below(30) + n)],
                        _ => vec![ternary(1, 4, 0x0c), exact(2, 3 * self.random.below(30) + n)],
                    };
                    members.push(ValueSetMember { r#match });
                }
                let value_set_id = self.f.value_set(name);
                (UpdateType::Modify, EntityKind::ValueSetEntry(ValueSetEntry { value_set_id, members }))
            }
            9 => {
                let data = v1::DataValue::Bitstring(self.number(1 << 40));
                let register = RegisterEntry {
                    register_id: self.f.register("stamps"),
                    index: (!self.random.one_in(10)).then_some(Index { index: self.random.below(8) as i64 }),
                    data: Some(P4Data { data: Some(data) }),
                };
                (UpdateType::Modify, EntityKind::RegisterEntry(register))
            }
            10 => {
                let kind = self.kind();
                // W-7.
                let least = if kind == UpdateType::Delete { -500 } else { 0 };
                let mut some = || self.random.below(1000) as i64 + least;
                let config = DigestConfig {
                    max_timeout_ns: some(),
                    max_list_size: some() as i32,
                    ack_timeout_ns: some(),
                };
                let config = (!self.random.one_in(4)).then_some(config);
                let digest_id = self.f.digest("learned_t");
                (kind, EntityKind::DigestEntry(DigestEntry { digest_id, config }))
            }
            _ => self.table_entry(model),
        }
    }

    /// Makes an update wrong in one way. Returns false if this way does not apply to it.
    fn spoil(&mut self, way: usize, kind: &mut UpdateType, of: &mut EntityKind) -> bool {
        let is_delete = *kind == UpdateType::Delete;
        match (way, of) {
            (0, _) => *kind = UpdateType::Unspecified,
            (1, EntityKind::TableEntry(e)) => e.table_id ^= 0x00ff_f000,
            (1, EntityKind::ActionProfileMember(m)) => m.action_profile_id ^= 0x0100_0000,
            (1, EntityKind::ActionProfileGroup(g)) => g.action_profile_id = 0,
            (1, EntityKind::CounterEntry(c)) => c.counter_id = 0,
            (1, EntityKind::MeterEntry(m)) => m.meter_id ^= 0x0000_0010,
            (1, EntityKind::ValueSetEntry(v)) => v.value_set_id = 7,
            (1, EntityKind::RegisterEntry(r)) => r.register_id ^= 0x0800_0000,
            (1, EntityKind::DigestEntry(d)) => d.digest_id ^= 1,
            (2, EntityKind::TableEntry(e)) if !e.is_default_action && !e.r#match.is_empty() => {
                let place = self.random.below(e.r#match.len() as u64) as usize;
                e.r#match[place].field_id = 77;
            }
            (3, EntityKind::TableEntry(e)) if !e.r#match.is_empty() => {
                let again = self.random.pick(&e.r#match).clone();
                e.r#match.push(again);
            }
            (4, EntityKind::TableEntry(e)) if !e.is_default_action && !e.r#match.is_empty() => {
                let place = self.random.below(e.r#match.len() as u64) as usize;
                let spoiled = &mut e.r#match[place].field_match_type;
                *spoiled = match spoiled {
                    Some(FieldMatchType::Exact(_)) => Some(FieldMatchType::Range(Default::default())),
                    Some(FieldMatchType::Ternary(_)) => None,
                    _ => Some(FieldMatchType::Exact(v1::Exact { value: bytes(1) })),
                };
            }
            (5, EntityKind::TableEntry(e)) => {
                let spec = self.spec(e);
                let exact = |m: &FieldMatch| spec.keys[m.field_id as usize - 1].kind == Kind::Exact;
                let Some(place) = e.r#match.iter().position(exact) else { return false };
                e.r#match.remove(place);
            }
            (6, EntityKind::TableEntry(e)) => {
                // A match that matches everything.
                let spec = self.spec(e);
                let wide = |(_, key): &(u32, &model::Key)| !matches!(key.kind, Kind::Exact | Kind::Optional);
                let all: Vec<_> = (1..).zip(spec.keys).filter(wide).collect();
                if all.is_empty() || e.is_default_action {
                    return false;
                }
                let (id, key) = *self.random.pick(&all);
                e.r#match.retain(|m| m.field_id != id);
                e.r#match.push(match key.kind {
                    Kind::Lpm => lpm(id, 0, 0),
                    Kind::Ternary => ternary(id, 0, 0),
                    _ => range(id, 0, 0xffff),
                });
            }
            (7 | 8, EntityKind::TableEntry(e)) if !e.is_default_action => {
                let value: bytes::Bytes = if way == 7 { vec![1; 17].into() } else { bytes::Bytes::new() };
                let spec = self.spec(e);
                let is_number = |m: &&mut FieldMatch| !spec.keys[m.field_id as usize - 1].is_string;
                match e.r#match.iter_mut().filter(is_number).find_map(|m| m.field_match_type.as_mut()) {
                    Some(FieldMatchType::Exact(m)) => m.value = value,
                    Some(FieldMatchType::Lpm(m)) => m.value = value,
                    Some(FieldMatchType::Ternary(m)) => m.mask = value,
                    Some(FieldMatchType::Range(m)) => m.high = value,
                    Some(FieldMatchType::Optional(m)) => m.value = value,
                    _ => return false,
                }
            }
            (7, EntityKind::RegisterEntry(r)) => {
                let data = v1::DataValue::Bitstring(vec![1; 7].into());
                r.data = Some(P4Data { data: Some(data) });
            }
            (9, EntityKind::TableEntry(e)) => {
                // Bits behind the mask, or a range from the wrong end.
                let spec = self.spec(e);
                for m in &mut e.r#match {
                    let key = &spec.keys[m.field_id as usize - 1];
                    match &mut m.field_match_type {
                        Some(FieldMatchType::Lpm(m)) if m.prefix_len < 32 => {
                            m.value = bytes(0x0101_0101);
                            return true;
                        }
                        Some(FieldMatchType::Ternary(m)) if key.outer_width == key.width => {
                            (m.value, m.mask) = (bytes(6), bytes(5));
                            return true;
                        }
                        Some(FieldMatchType::Ternary(m)) => {
                            // A translated value has no parts.
                            (m.value, m.mask) = (bytes(5), bytes(5));
                            return true;
                        }
                        Some(FieldMatchType::Range(m)) => {
                            (m.low, m.high) = (bytes(6), bytes(5));
                            return true;
                        }
                        _ => {}
                    }
                }
                return false;
            }
            (10, EntityKind::TableEntry(e)) => {
                let has_priority = self.spec(e).has_priority() && !e.is_default_action;
                e.priority = *self.random.pick(if has_priority { &[0, -1] } else { &[1, -5] });
            }
            (11, EntityKind::TableEntry(e)) if !is_delete => {
                let (id, spec) = (self.f.action_id("forward"), self.spec(e));
                let drop_it = self.f.action_id("drop_it");
                let Some(TableActionType::Action(a)) = e.action.as_mut().and_then(|a| a.r#type.as_mut())
                else {
                    return false;
                };
                a.action_id = match spec.name {
                    // @defaultonly.
                    "l2" if !e.is_default_action => drop_it,
                    _ => id ^ 0x0000_1000,
                };
            }
            (11, EntityKind::ActionProfileMember(m)) if !is_delete => {
                m.action = Some(self.f.action("send", &[1, 2]));
            }
            (12 | 13, EntityKind::TableEntry(e)) if !is_delete => {
                let action = match e.action.as_mut().and_then(|a| a.r#type.as_mut()) {
                    Some(TableActionType::Action(a)) => a,
                    Some(TableActionType::ActionProfileActionSet(set)) => {
                        match set.action_profile_actions.first_mut().and_then(|a| a.action.as_mut()) {
                            Some(action) => action,
                            None => return false,
                        }
                    }
                    _ => return false,
                };
                if way == 12 {
                    return action.params.pop().is_some();
                }
                match action.params.first().cloned() {
                    Some(first) => action.params.push(first),
                    None => action.params.push(v1::ActionParam { param_id: 1, value: bytes(1) }),
                }
            }
            (14, EntityKind::TableEntry(e)) if !is_delete && !e.is_default_action => {
                let spec = self.spec(e);
                e.action = Some(TableAction {
                    r#type: match (spec.profile, self.random.below(3)) {
                        (_, 0) => None,
                        (None, 1) => Some(TableActionType::ActionProfileGroupId(1)),
                        (None, _) => Some(TableActionType::ActionProfileMemberId(1)),
                        (Some(_), _) => Some(TableActionType::Action(self.f.action("NoAction", &[]))),
                    },
                });
            }
            (15, EntityKind::TableEntry(e)) if !is_delete && !e.is_default_action => {
                // The constraints.
                match self.spec(e).name {
                    "acl" if self.random.one_in(2) => e.priority = 9,
                    "acl" => {
                        e.r#match.retain(|m| m.field_id != 2 && m.field_id != 3);
                        e.r#match.extend([optional(2, 17), ternary(3, 1, 1)]);
                    }
                    "l2" | "started" => {
                        let class = *self.random.pick(&[0, 200, 254]);
                        e.action = self.f.act("classify", &[class]);
                    }
                    _ => return false,
                }
            }
            (16, EntityKind::TableEntry(e)) => {
                if self.random.one_in(2) || is_delete {
                    e.is_const = true;
                } else {
                    e.time_since_last_hit = Some(IdleTimeout { elapsed_ns: 1 });
                }
            }
            (17, EntityKind::TableEntry(e)) if !is_delete => {
                e.idle_timeout_ns = if self.spec(e).direct && !e.is_default_action { -1 } else { 1000 };
            }
            (18, EntityKind::TableEntry(e)) if !is_delete => {
                match (self.spec(e).direct, self.random.below(2)) {
                    (false, 0) => e.counter_data = Some(CounterData::default()),
                    (false, _) => e.meter_config = Some(MeterConfig::default()),
                    (true, 0) => {
                        e.counter_data = Some(CounterData { byte_count: 1, packet_count: -1 });
                    }
                    (true, _) => e.meter_config = Some(MeterConfig { cir: 2, pir: 1, ..Default::default() }),
                }
            }
            (19, EntityKind::ActionProfileMember(m)) => m.member_id = 0,
            (19, EntityKind::ActionProfileGroup(g)) => g.group_id = 0,
            (19, EntityKind::TableEntry(e)) if !is_delete => {
                match e.action.as_mut().and_then(|a| a.r#type.as_mut()) {
                    Some(
                        TableActionType::ActionProfileMemberId(id)
                        | TableActionType::ActionProfileGroupId(id),
                    ) => *id = *self.random.pick(&[0, 99]),
                    _ => return false,
                }
            }
            (20, EntityKind::ActionProfileGroup(g)) if !is_delete => match self.random.below(4) {
                0 => g.max_size = *self.random.pick(&[-1, 7]),
                1 => g.members = vec![GroupMember { member_id: 99, weight: 1, watch_kind: None }],
                2 => {
                    g.members = vec![GroupMember { member_id: 1, weight: 0, watch_kind: None }];
                }
                _ => {
                    let watch_kind = Some(WatchKind::WatchPort(bytes(300)));
                    g.members = vec![GroupMember { member_id: 1, weight: 1, watch_kind }];
                }
            },
            (20, EntityKind::TableEntry(e)) if !is_delete => {
                let forward = Some(self.f.action("forward", &[1]));
                let Some(TableActionType::ActionProfileActionSet(set)) =
                    e.action.as_mut().and_then(|a| a.r#type.as_mut())
                else {
                    return false;
                };
                let wrong =
                    |weight| ActionProfileAction { action: forward.clone(), weight, watch_kind: None };
                match self.random.below(4) {
                    0 => set.action_profile_actions.push(wrong(0)),
                    1 => set.action_profile_actions.push(wrong(7)),
                    2 => set.action_selection_mode = *self.random.pick(&[2, 2, 9]),
                    _ => set.size_semantics = 9,
                }
            }
            (21, EntityKind::CounterEntry(c)) => match self.random.below(3) {
                0 => c.index = Some(Index { index: *self.random.pick(&[-1, 16, i64::MAX]) }),
                1 => c.data = Some(CounterData { byte_count: -1, packet_count: 0 }),
                _ => *kind = UpdateType::Delete,
            },
            (21, EntityKind::MeterEntry(m)) => match self.random.below(3) {
                0 => m.index = Some(Index { index: *self.random.pick(&[-1, 8]) }),
                1 => m.config = Some(MeterConfig { eburst: 1, ..MeterConfig::default() }),
                _ => *kind = UpdateType::Insert,
            },
            (21, EntityKind::DirectCounterEntry(c)) => match self.random.below(2) {
                0 => c.table_entry = None,
                _ => *kind = UpdateType::Insert,
            },
            (21, EntityKind::DirectMeterEntry(m)) => match self.random.below(2) {
                0 => m.config = Some(MeterConfig { cir: -1, ..MeterConfig::default() }),
                _ => {
                    let entry = m.table_entry.get_or_insert_default();
                    (entry.r#match, entry.is_default_action) = (vec![exact(1, 1 << 40)], false);
                }
            },
            (21, EntityKind::RegisterEntry(r)) => match self.random.below(2) {
                0 => r.index = Some(Index { index: *self.random.pick(&[-1, 8]) }),
                _ => r.data = None,
            },
            (22, EntityKind::PacketReplicationEngineEntry(e)) => match &mut e.r#type {
                Some(ReplicationType::MulticastGroupEntry(g)) => match self.random.below(3) {
                    0 => g.multicast_group_id = *self.random.pick(&[0, 65_536]),
                    1 if !is_delete => g.replicas = twice(),
                    _ if !is_delete => g.replicas = vec![Replica { instance: 65_536, ..twice()[0].clone() }],
                    _ => e.r#type = None,
                },
                Some(ReplicationType::CloneSessionEntry(s)) => match self.random.below(4) {
                    0 => s.session_id = 0,
                    _ if is_delete => e.r#type = None,
                    1 => s.class_of_service = 8,
                    2 => s.packet_length_bytes = -1,
                    _ => s.replicas = vec![Replica { port_kind: None, ..twice()[0].clone() }],
                },
                None => return false,
            },
            (23, EntityKind::ValueSetEntry(v)) => match self.random.below(3) {
                0 => *kind = UpdateType::Insert,
                1 => {
                    let Some(first) = v.members.first().cloned() else { return false };
                    v.members.push(first);
                }
                _ => v.members.push(ValueSetMember { r#match: vec![exact(3, 1)] }),
            },
            (24, EntityKind::DigestEntry(d)) if !is_delete => {
                d.config = Some(DigestConfig { max_timeout_ns: -1, ..DigestConfig::default() });
            }
            _ => return false,
        }
        true
    }

    fn spec(&self, entry: &TableEntry) -> &'static model::TableSpec {
        TABLES.iter().find(|spec| self.f.table(spec.name) == entry.table_id).expect("a table of the program")
    }
}

/// The number of ways to make an update wrong.
const WAYS: usize = 25;

/// The same copy twice.
fn twice() -> Vec<Replica> {
    let port_kind = Some(PortKind::Port(bytes(5)));
    vec![Replica { port_kind, instance: 1, backup_replicas: Vec::new() }; 2]
}

fn replication(of: ReplicationType) -> EntityKind {
    EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Everything that clients can read except counters without entries, sorted.
fn read_all(f: &Fixture) -> Vec<String> {
    let shown = TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        ..TableEntry::default()
    };
    let replication_of =
        |kind| EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) });
    let patterns = [
        EntityKind::TableEntry(shown.clone()),
        EntityKind::TableEntry(TableEntry { is_default_action: true, ..shown }),
        EntityKind::ActionProfileMember(Default::default()),
        EntityKind::ActionProfileGroup(Default::default()),
        replication_of(ReplicationType::MulticastGroupEntry(Default::default())),
        replication_of(ReplicationType::CloneSessionEntry(Default::default())),
        EntityKind::CounterEntry(Default::default()),
        EntityKind::MeterEntry(Default::default()),
        EntityKind::ValueSetEntry(Default::default()),
        EntityKind::RegisterEntry(RegisterEntry { register_id: f.register("stamps"), ..Default::default() }),
        EntityKind::DigestEntry(Default::default()),
    ];
    model::in_order(patterns.into_iter().flat_map(|pattern| f.read(pattern)).collect())
}

fn compare(f: &Fixture, model: &Model, when: &str) {
    let (found, expected) = (read_all(f), model.show());
    if found != expected {
        let missing: Vec<_> = expected.iter().filter(|e| found.binary_search(e).is_err()).take(3).collect();
        let more: Vec<_> = found.iter().filter(|e| expected.binary_search(e).is_err()).take(3).collect();
        panic!("{when}: a Read lacks {missing:#?} and has {more:#?}");
    }
}

/// Each answer, and everything read afterwards, equals that of the model.
#[test]
fn random_updates_get_the_answers_of_the_specification() {
    let (updates, seed) = (number("UPDATES", 20_000), number("SEED", 1));
    let f = Fixture::new().hosted(&Arc::new(NoPackets));
    let mut model = Model::new(&f);
    compare(&f, &model, "before the first update");
    let mut codes: BTreeMap<i32, u64> = BTreeMap::new();
    let mut ways = [0u64; WAYS];
    let mut done = 0;
    for batch in 0.. {
        if done >= updates {
            break;
        }
        let random = Random((seed << 32 ^ batch).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut maker = Maker { random, f: &f };
        for _ in 0..3 {
            maker.random.next();
        }
        let all_or_nothing = maker.random.one_in(4);
        let atomicity = match (all_or_nothing, maker.random.one_in(3)) {
            (false, _) => Atomicity::ContinueOnError,
            (true, false) => Atomicity::RollbackOnError,
            (true, true) => Atomicity::DataplaneAtomic,
        };
        let length = 1 + maker.random.below(if all_or_nothing { 6 } else { 40 });
        let before = all_or_nothing.then(|| model.clone());
        let (mut request, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..length {
            let (mut kind, mut of) = maker.update(&model);
            let mut spoilt = None;
            if maker.random.one_in(if all_or_nothing { 12 } else { 3 }) {
                let way = maker.random.below(WAYS as u64) as usize;
                let right = (kind, of.clone());
                match maker.spoil(way, &mut kind, &mut of) {
                    true => spoilt = Some(way),
                    false => (kind, of) = right,
                }
            }
            let answer = model.update(kind, &of);
            if let Some(way) = spoilt {
                assert_ne!(answer, [0], "seed {seed}, batch {batch}: way {way} is right: {kind:?} {of:?}");
                ways[way] += 1;
            }
            request.push(Update { r#type: kind as i32, entity: Some(Entity { entity: Some(of) }) });
            expected.push(answer);
        }
        done += length;
        let first_wrong = expected.iter().position(|codes| *codes != [0]);
        if let (Some(before), Some(first)) = (before, first_wrong) {
            model = before;
            for (place, answer) in expected.iter_mut().enumerate() {
                if place != first {
                    *answer = vec![10];
                }
            }
        }
        let written = f.write(request.clone(), atomicity);
        assert_eq!(written.refused, None, "seed {seed}, batch {batch}");
        let errors = written.errors.unwrap_or_else(|| vec![v1::Error::default(); request.len()]);
        assert_eq!(errors.len(), request.len());
        for ((update, error), expected) in request.iter().zip(&errors).zip(&expected) {
            *codes.entry(error.canonical_code).or_default() += 1;
            assert!(
                expected.contains(&error.canonical_code),
                "seed {seed}, batch {batch} ({atomicity:?}): {error:?}, expected {expected:?}: {update:?}"
            );
        }
        if batch % 64 == 0 {
            compare(&f, &model, &format!("seed {seed}, batch {batch}"));
        }
    }
    compare(&f, &model, &format!("seed {seed}, at the end"));
    // A state file has all of it.
    let dump = f.switch.control().dump(true);
    assert!(
        f.switch
            .write(vec![p4jet_control::Update::Reset], p4jet_control::Atomicity::AllOrNothing)
            .0
            .in_effect
    );
    assert_eq!(f.switch.restore(&dump), Ok(None));
    compare(&f, &model, &format!("seed {seed}, after a restart"));
    println!("{done} updates; canonical codes: {codes:?}; wrong updates by way: {ways:?}");
    if updates >= 20_000 {
        assert!(codes[&0] > done / 4, "most updates are right: {codes:?}");
        assert!(ways.iter().all(|n| *n > 0), "each way is taken: {ways:?}");
        for code in [3, 5, 6, 7, 8, 9, 10, 11] {
            assert!(codes.contains_key(&code), "no update got {code}: {codes:?}");
        }
    }
}
