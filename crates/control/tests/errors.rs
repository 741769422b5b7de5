//! Every refusal of an update or a read names the object and the part that is wrong, and lists the choices where there are few.

use crate::common::{control, set_up};
use p4jet_control::{
    Act, Action, Atomicity, Cell, CloneDestination, Control, ControlError, CounterValue, CrcParams, EntryKey,
    EntryRef, InstanceId, KeyMatch, NOTE_BYTES_MAX, NamedUpdate, Noted, Queue, QueueUpdate, Ref, Replica,
    Selector, Share, TableId, Update,
};
use p4jet_externs::Rate;
use std::collections::BTreeSet;

const TABLES: &[&str] = &[
    "egress.ipv4_out",
    "egress.near",
    "egress.remote",
    "ingress.acl",
    "ingress.fixed",
    "ingress.ipv4_lpm",
    "ingress.l2",
    "ingress.next_hop",
    "ingress.route",
];
const VALUE_SETS: &[&str] = &["parser.masked", "parser.pairs", "value_set"];
const COUNTERS: &[&str] = &["ingress.hits", "ingress.seen"];
const REGISTERS: &[&str] = &["ingress.bit", "ingress.cells", "ingress.wide"];
const METERS: &[&str] = &["egress.police", "ingress.color", "ingress.police"];
const PROFILES: &[&str] = &["egress.shared", "ingress.ecmp", "ingress.hops"];
const SELECTORS: &[&str] = &["ingress.ecmp", "egress.shared"];
const CRCS: &[&str] = &["calc", "sum"];
const NONE: &[&str] = &[];

const INVALID: &str = "INVALID_ARGUMENT";

/// Code, entity, field and choices; an empty text for none.
type Expected = (&'static str, &'static str, &'static str, &'static [&'static str]);

fn check(what: &str, error: &ControlError, (code, entity, field, choices): Expected) {
    assert_eq!(&*error.code, code, "{what}: {error}");
    assert_eq!(error.entity.as_deref().unwrap_or(""), entity, "{what}: {error}");
    assert_eq!(error.field.as_deref().unwrap_or(""), field, "{what}: {error}");
    assert_eq!(&*error.choices, choices, "{what}: {error}");
}

/// The name of the variant.
fn kind(update: &Update) -> String {
    format!("{update:?}").split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_string()
}

fn exact(values: &[u64]) -> Vec<KeyMatch> {
    values.iter().map(|value| KeyMatch::Exact((*value).into())).collect()
}

fn act(action: u32, data: &[u64]) -> Act {
    Act::Action(Action { action, data: data.iter().map(|value| (*value).into()).collect() })
}

/// A switch with an entry, members 0 and 1 of `ecmp` of which a group has the first, and full value set.
fn prepared() -> Control {
    let control = control();
    set_up(
        &control,
        r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}
{"create_member":{"profile":"ecmp","do":{"action":"deny"}}}
{"create_member":{"profile":"ecmp","do":{"action":"deny"}}}
{"create_group":{"profile":"ecmp"}}
{"add_to_group":{"profile":"ecmp","group":0,"member":0}}
{"insert":{"table":"route","key":["1&&&1"],"priority":1,"do":{"group":0}}}
{"add_to_value_set":{"set":"value_set","key":["1"]}}
{"create_multicast_group":{"group":1}}
{"create_node":{"rid":1,"ports":[1],"lags":[]}}"#,
    );
    control
}

fn wrong_updates(control: &Control) -> Vec<(Update, Expected)> {
    let schema = control.schema();
    let table = |name| schema.table(name).unwrap();
    let (l2, fixed, acl) = (table("l2"), table("fixed"), table("acl"));
    let (route, next_hop, no_key) = (table("route"), table("next_hop"), table("ipv4_out"));
    let set = |name| schema.value_set(name).unwrap();
    let no_table = TableId(99);
    let counter = |name| schema.counter(name).unwrap();
    let profile = |name| schema.profile(name).unwrap();
    let (ecmp, hops) = (profile("ecmp"), profile("hops"));
    let (cells, police) = (schema.register("cells").unwrap(), schema.meter("ingress.police").unwrap());
    let no_instance = InstanceId(99);
    let insert = |table, key, priority, act| Update::Insert { table, key, priority, act };
    let by_key = |value| EntryRef::Key(Box::new(EntryKey { key: exact(&[value]), priority: 0 }));
    let share = |member, weight| Share { member, weight };
    let rates = |committed, peak| Some([committed, peak].map(|per_us| Rate { per_us, burst: 1 }));
    let value = CounterValue { packets: 1, bytes: 1 };
    let crc = |width, poly, xor| CrcParams { width, poly, xor, ..CrcParams::CRC16 };
    let note = |of, bytes: usize| Update::Note { of, note: Some(vec![0; bytes].into()) };
    let replica = |port, replication_id| Replica { port, replication_id };
    let replicas = |replicas, class_of_service, bytes_max| Update::SetReplicas {
        session: 1,
        replicas,
        class_of_service,
        bytes_max,
    };
    let session = |session, to| Update::SetSession { session, to, bytes_max: None };
    let of = |port, queue| Queue { port: Some(port), queue: Some(queue) };
    let node = |replication_id, port, lag| Update::CreateNode {
        replication_id,
        ports: [port].into(),
        lags: [lag].into(),
    };
    let deny = || act(1, &[]);
    let l2_actions: &[&str] = &["ingress.out", "ingress.deny"];
    let ecmp_actions: &[&str] = &["ingress.out", "ingress.deny", "NoAction"];
    vec![
        (insert(no_table, exact(&[2]), 0, deny()), (INVALID, "", "table", TABLES)),
        (insert(set("pairs"), exact(&[2, 2]), 0, deny()), (INVALID, "", "table", TABLES)),
        (
            insert(fixed, exact(&[2]), 0, act(0, &[1])),
            ("IMMUTABLE_TABLE_ENTRIES", "ingress.fixed", "table", NONE),
        ),
        (insert(l2, exact(&[2]), 3, deny()), (INVALID, "ingress.l2", "priority", NONE)),
        (
            insert(route, exact(&[2]), u32::MAX, Act::Group(0.into())),
            (INVALID, "ingress.route", "priority", NONE),
        ),
        (
            insert(l2, exact(&[2]), 0, act(99, &[])),
            ("INVALID_ACTION_NAME", "ingress.l2", "action", l2_actions),
        ),
        (
            insert(l2, exact(&[2]), 0, act(2, &[])),
            ("INVALID_ACTION_NAME", "ingress.l2", "action", l2_actions),
        ),
        (
            insert(l2, exact(&[2]), 0, act(0, &[512])),
            ("BAD_ACTION_DATA", "ingress.l2", "parameter port", NONE),
        ),
        (insert(l2, exact(&[2]), 0, act(0, &[])), ("BAD_ACTION_DATA", "ingress.l2", "action", NONE)),
        (
            insert(l2, exact(&[2]), 0, Act::Member(0.into())),
            ("WRONG_TABLE_TYPE", "ingress.l2", "action", NONE),
        ),
        (insert(route, exact(&[2]), 0, deny()), ("WRONG_TABLE_TYPE", "ingress.route", "action", NONE)),
        (
            insert(next_hop, exact(&[2]), 0, Act::Group(0.into())),
            (INVALID, "ingress.hops", "action profile", SELECTORS),
        ),
        (
            insert(next_hop, exact(&[2]), 0, Act::Member(7.into())),
            ("INVALID_MBR_HANDLE", "ingress.next_hop", "member", NONE),
        ),
        (
            insert(
                route,
                vec![KeyMatch::Ternary { value: 2u32.into(), mask: 3u32.into() }],
                0,
                Act::Group(7.into()),
            ),
            ("INVALID_GRP_HANDLE", "ingress.route", "group", NONE),
        ),
        (
            insert(next_hop, exact(&[2]), 0, Act::Member(Ref::Made(0))),
            (INVALID, "ingress.hops", "handle", NONE),
        ),
        (insert(l2, exact(&[1 << 48]), 0, deny()), ("BAD_MATCH_KEY", "ingress.l2", "key hdr.eth.dst", NONE)),
        (
            insert(l2, vec![KeyMatch::Optional(None)], 0, deny()),
            ("BAD_MATCH_KEY", "ingress.l2", "key hdr.eth.dst", NONE),
        ),
        (insert(l2, exact(&[2, 2]), 0, deny()), ("BAD_MATCH_KEY", "ingress.l2", "key", NONE)),
        (insert(l2, exact(&[1]), 0, deny()), ("DUPLICATE_ENTRY", "ingress.l2", "key", NONE)),
        (insert(no_key, exact(&[]), 0, act(0, &[1])), ("NO_TABLE_KEY", "egress.ipv4_out", "key", NONE)),
        (Update::Modify { table: no_table, entry: 0.into(), act: deny() }, (INVALID, "", "table", TABLES)),
        (
            Update::Modify { table: l2, entry: 7.into(), act: deny() },
            ("INVALID_HANDLE", "ingress.l2", "handle", NONE),
        ),
        (
            Update::Modify { table: l2, entry: 0.into(), act: act(2, &[]) },
            ("INVALID_ACTION_NAME", "ingress.l2", "action", l2_actions),
        ),
        (
            Update::Modify { table: l2, entry: EntryRef::Handle(Ref::Made(0)), act: deny() },
            (INVALID, "ingress.l2", "handle", NONE),
        ),
        (Update::Delete { table: l2, entry: by_key(9) }, ("BAD_MATCH_KEY", "ingress.l2", "key", NONE)),
        (
            Update::Delete { table: fixed, entry: 0.into() },
            ("IMMUTABLE_TABLE_ENTRIES", "ingress.fixed", "table", NONE),
        ),
        (Update::Clear(fixed), ("IMMUTABLE_TABLE_ENTRIES", "ingress.fixed", "table", NONE)),
        (Update::Clear(set("pairs")), (INVALID, "", "table", TABLES)),
        (
            Update::SetDefault { table: acl, act: act(1, &[1]) },
            ("INVALID_ACTION_NAME", "ingress.acl", "action", &["ingress.deny", "NoAction"]),
        ),
        (
            Update::SetDefault { table: fixed, act: act(0, &[1]) },
            ("DEFAULT_ACTION_IS_CONST", "ingress.fixed", "action", NONE),
        ),
        (Update::ResetDefault(no_table), (INVALID, "", "table", TABLES)),
        (
            Update::SetTimeout { table: acl, entry: 0.into(), timeout_ms: 5 },
            (INVALID, "ingress.acl", "table", NONE),
        ),
        (
            Update::CreateMember {
                profile: no_instance,
                action: Action { action: 0, data: vec![1u32.into()] },
            },
            (INVALID, "", "action profile", PROFILES),
        ),
        (
            Update::CreateMember { profile: ecmp, action: Action { action: 9, data: Vec::new() } },
            ("INVALID_ACTION_NAME", "ingress.ecmp", "action", ecmp_actions),
        ),
        (
            Update::CreateMember { profile: ecmp, action: Action { action: 0, data: vec![512u32.into()] } },
            ("BAD_ACTION_DATA", "ingress.ecmp", "parameter port", NONE),
        ),
        (
            Update::ModifyMember {
                profile: ecmp,
                member: 7.into(),
                action: Action { action: 1, data: Vec::new() },
            },
            ("INVALID_MBR_HANDLE", "ingress.ecmp", "member", NONE),
        ),
        (
            Update::DeleteMember { profile: ecmp, member: 0.into() },
            ("MBR_STILL_USED", "ingress.ecmp", "member", NONE),
        ),
        (
            Update::DeleteMember { profile: ecmp, member: Ref::Made(0) },
            (INVALID, "ingress.ecmp", "handle", NONE),
        ),
        (Update::CreateGroup { profile: hops }, (INVALID, "ingress.hops", "action profile", SELECTORS)),
        (
            Update::DeleteGroup { profile: ecmp, group: 0.into() },
            ("GRP_STILL_USED", "ingress.ecmp", "group", NONE),
        ),
        (
            Update::DeleteGroup { profile: ecmp, group: 7.into() },
            ("INVALID_GRP_HANDLE", "ingress.ecmp", "group", NONE),
        ),
        (
            Update::AddToGroup { profile: ecmp, group: 0.into(), member: 0.into() },
            ("MBR_ALREADY_IN_GRP", "ingress.ecmp", "member", NONE),
        ),
        (
            Update::RemoveFromGroup { profile: ecmp, group: 0.into(), member: 1.into() },
            ("MBR_NOT_IN_GRP", "ingress.ecmp", "member", NONE),
        ),
        (
            Update::SetGroup {
                profile: ecmp,
                group: 0.into(),
                members: vec![share(0, 1), share(1, 1 << 16)],
            },
            (INVALID, "ingress.ecmp", "weight", NONE),
        ),
        (
            Update::SetGroup { profile: ecmp, group: 0.into(), members: vec![share(7, 1)] },
            ("INVALID_MBR_HANDLE", "ingress.ecmp", "member", NONE),
        ),
        (
            Update::WriteCounter { counter: cells, cell: Cell::Index(0), value },
            (INVALID, "", "counter", COUNTERS),
        ),
        (
            Update::WriteCounter { counter: counter("seen"), cell: Cell::Index(8), value },
            ("INVALID_INDEX", "ingress.seen", "index", NONE),
        ),
        (
            Update::WriteCounter { counter: counter("seen"), cell: Cell::Entry(0.into()), value },
            ("INVALID_INDEX", "ingress.seen", "index", NONE),
        ),
        (
            Update::WriteCounter { counter: counter("hits"), cell: Cell::Entry(7.into()), value },
            ("INVALID_HANDLE", "ingress.l2", "handle", NONE),
        ),
        (Update::ResetCounter(no_instance), (INVALID, "", "counter", COUNTERS)),
        (
            Update::WriteRegister { register: cells, index: 4, value: 0u32.into() },
            ("INVALID_INDEX", "ingress.cells", "index", NONE),
        ),
        (
            Update::WriteRegister { register: cells, index: 0, value: (1u32 << 16).into() },
            (INVALID, "ingress.cells", "value", NONE),
        ),
        (Update::ResetRegister(police), (INVALID, "", "register", REGISTERS)),
        (
            Update::SetMeter { meter: police, cell: Cell::Index(4), rates: None },
            ("INVALID_INDEX", "ingress.police", "index", NONE),
        ),
        (
            Update::SetMeter { meter: police, cell: Cell::Index(0), rates: rates(2.0, 1.0) },
            ("INVALID_INFO_RATE_VALUE", "ingress.police", "rate", NONE),
        ),
        (
            Update::SetMeterArray { meter: police, rates: rates(-1.0, 1.0) },
            (INVALID, "ingress.police", "rate", NONE),
        ),
        (Update::SetMeterArray { meter: cells, rates: None }, (INVALID, "", "meter", METERS)),
        (Update::SetCrc { crc: 9, params: CrcParams::CRC16 }, (INVALID, "", "custom CRC", CRCS)),
        (Update::SetCrc { crc: 0, params: CrcParams::CRC32 }, (INVALID, "calc", "width", NONE)),
        (Update::SetCrc { crc: 0, params: crc(16, 1 << 16, 0) }, (INVALID, "calc", "polynomial", NONE)),
        (Update::SetCrc { crc: 0, params: crc(16, 1, 1 << 16) }, (INVALID, "calc", "xor", NONE)),
        (Update::AddToValueSet { set: l2, key: exact(&[1]) }, (INVALID, "", "parser value set", VALUE_SETS)),
        (
            Update::AddToValueSet { set: set("pairs"), key: exact(&[256, 1]) },
            ("BAD_MATCH_KEY", "parser.pairs", "key a", NONE),
        ),
        (
            Update::AddToValueSet { set: set("value_set"), key: exact(&[2]) },
            ("TABLE_FULL", "value_set", "", NONE),
        ),
        (
            Update::RemoveFromValueSet { set: no_table, key: exact(&[1]) },
            (INVALID, "", "parser value set", VALUE_SETS),
        ),
        (Update::ClearValueSet(l2), (INVALID, "", "parser value set", VALUE_SETS)),
        (Update::CreateMulticastGroup(0), (INVALID, "", "group", NONE)),
        (
            Update::SetMulticastGroup { group: 1, replicas: Some(vec![replica(1, 1); 2]) },
            (INVALID, "", "replicas", NONE),
        ),
        (node(1, 512, 1), (INVALID, "", "port", NONE)),
        (node(1, 1, 65_536), (INVALID, "", "lag", NONE)),
        (node(65_536, 1, 1), (INVALID, "", "replication id", NONE)),
        (
            Update::UpdateNode { node: 7.into(), ports: [1].into(), lags: [].into() },
            ("INVALID_L1_HANDLE", "", "node", NONE),
        ),
        (Update::Associate { group: 7, node: 0.into() }, ("INVALID_MGRP_HANDLE", "", "group", NONE)),
        (Update::Dissociate { group: 1, node: 0.into() }, ("ERROR", "", "node", NONE)),
        (Update::DestroyNode(7.into()), ("INVALID_L1_HANDLE", "", "node", NONE)),
        (Update::SetLag { lag: 65_536, ports: [1].into() }, (INVALID, "", "lag", NONE)),
        (session(40_000, CloneDestination::Port(1)), (INVALID, "", "session", NONE)),
        (session(1, CloneDestination::Port(512)), (INVALID, "", "port", NONE)),
        (session(1, CloneDestination::Group(0)), (INVALID, "", "group", NONE)),
        (replicas(vec![replica(512, 1)], 0, None), (INVALID, "", "port", NONE)),
        (replicas(vec![replica(1, 1)], 8, None), (INVALID, "", "class of service", NONE)),
        (replicas(vec![replica(1, 1)], 0, Some(0)), (INVALID, "", "length", NONE)),
        (Update::DeleteSession(3), ("SESSION_NOT_FOUND", "", "session", NONE)),
        (note(Noted::Default(l2), NOTE_BYTES_MAX + 1), (INVALID, "ingress.l2", "note", NONE)),
        (note(Noted::Group(ecmp, 7), 1), (INVALID, "ingress.ecmp", "of", NONE)),
        (note(Noted::Session(7), 1), (INVALID, "", "of", NONE)),
        (note(Noted::Default(no_table), 1), (INVALID, "", "table", TABLES)),
        (note(Noted::Entry(no_table, 1), 1), (INVALID, "", "table", TABLES)),
        (Update::Queue(QueueUpdate::Depth { packets: 3, of: of(511, 0) }), (INVALID, "", "port", NONE)),
        (Update::Queue(QueueUpdate::Weight { weight: 10_001, of: of(1, 0) }), (INVALID, "", "weight", NONE)),
        (Update::Queue(QueueUpdate::Rate { rate: None, of: of(1, 8) }), (INVALID, "", "priority", NONE)),
    ]
}

#[test]
fn wrong_updates_name_what_is_wrong() {
    let control = prepared();
    let before = control.dump(true);
    let mut kinds = BTreeSet::new();
    for (update, expected) in wrong_updates(&control) {
        let text = format!("{update:?}");
        kinds.insert(kind(&update));
        let mut written = control.write(vec![update], Atomicity::ContinueOnError);
        let error = written.results.remove(0).expect_err(&text);
        check(&text, &error, expected);
    }
    assert_eq!(control.dump(true), before);
    let lines = include_str!("common/updates.json").lines();
    let named = lines.map(|line| serde_json::from_str::<NamedUpdate>(line).unwrap());
    let all: BTreeSet<_> = named.map(|named| kind(&control.schema().resolve(&named).unwrap())).collect();
    let never_refused: Vec<_> = all.difference(&kinds).collect();
    assert_eq!(never_refused, ["DestroyMulticastGroup", "Reset"]);
}

#[test]
fn wrong_names_list_the_names() {
    let control = control();
    let schema = control.schema();
    let unknown = |kind, choices| ("UNKNOWN_NAME", "", kind, choices);
    check("table", &schema.table("x").unwrap_err(), unknown("table", TABLES));
    check("counter", &schema.counter("x").unwrap_err(), unknown("counter", COUNTERS));
    check("register", &schema.register("x").unwrap_err(), unknown("register", REGISTERS));
    check("meter", &schema.meter("x").unwrap_err(), unknown("meter", METERS));
    check("profile", &schema.profile("x").unwrap_err(), unknown("action profile", PROFILES));
    check("value set", &schema.value_set("x").unwrap_err(), unknown("parser value set", VALUE_SETS));
    check("CRC", &schema.crc("x").unwrap_err(), unknown("custom CRC", CRCS));
    let error = schema.action(schema.table("l2").unwrap(), "x").unwrap_err();
    check(
        "action",
        &error,
        ("UNKNOWN_NAME", "ingress.l2", "action", &["NoAction", "ingress.deny", "ingress.out"]),
    );
    assert!(error.message.contains("actions of the table are"), "{error}");
}

#[test]
fn wrong_reads_name_what_is_wrong() {
    let control = prepared();
    let schema = control.schema();
    let (l2, set) = (schema.table("l2").unwrap(), schema.value_set("pairs").unwrap());
    let (hits, cells) = (schema.counter("hits").unwrap(), schema.register("cells").unwrap());
    for (selector, expected) in [
        (Selector::Entries(set), (INVALID, "", "table", TABLES)),
        (Selector::Entry(l2, 7), ("INVALID_HANDLE", "ingress.l2", "handle", NONE)),
        (Selector::EntryByKey(l2, exact(&[9]), 0), ("BAD_MATCH_KEY", "ingress.l2", "key", NONE)),
        (Selector::Default(TableId(99)), (INVALID, "", "table", TABLES)),
        (Selector::Members(hits), (INVALID, "", "action profile", PROFILES)),
        (Selector::Groups(InstanceId(99)), (INVALID, "", "action profile", PROFILES)),
        (Selector::Counter(hits), (INVALID, "ingress.hits", "counter", NONE)),
        (Selector::Counter(cells), (INVALID, "", "counter", COUNTERS)),
        (Selector::Register(hits), (INVALID, "", "register", REGISTERS)),
        (Selector::Meter(InstanceId(99)), (INVALID, "", "meter", METERS)),
        (Selector::ValueSet(l2), (INVALID, "", "parser value set", VALUE_SETS)),
        (Selector::MulticastGroup(7), ("INVALID_MGRP_HANDLE", "", "group", NONE)),
        (Selector::Session(7), ("SESSION_NOT_FOUND", "", "session", NONE)),
        (Selector::Crc(9), (INVALID, "", "custom CRC", CRCS)),
    ] {
        let error = control.read(&selector, 0, 10).unwrap_err();
        check(&format!("{selector:?}"), &error, expected);
    }
    // Single cells, too.
    let seen = schema.counter("seen").unwrap();
    check(
        "counter",
        &control.counter_value(seen, 8).unwrap_err(),
        ("INVALID_INDEX", "ingress.seen", "index", NONE),
    );
    check(
        "register",
        &control.register_value(cells, 4).unwrap_err(),
        ("INVALID_INDEX", "ingress.cells", "index", NONE),
    );
}
