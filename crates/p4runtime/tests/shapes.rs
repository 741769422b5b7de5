//! Requirements about programs that `common/entities.p4` is not, one test for each number or range.

use crate::common;

use crate::common::*;
use UpdateType::{Delete, Insert, Modify};
use p4jet_control::Atomicity::AllOrNothing as All;
use p4jet_control::{ControlError, Update};
use p4jet_p4info::proto::v1::{
    ActionProfileGroup, ActionProfileMember, Atomicity, CounterData, CounterEntry, DataValue, Entity,
    EntityKind, FieldMatch, GroupMember, Index, MeterConfig, MeterCounterData, MulticastGroupEntry, P4Data,
    PacketReplicationEngineEntry, PortKind, RegisterEntry, Replica, ReplicationType, TableAction,
    TableActionType, TableEntry, UpdateType, ValueSetEntry, ValueSetMember,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A v1model program with these declarations, locals of its ingress, and statements.
fn v1model(declared: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>\n#include <v1model.p4>\n{declared}
header h_t {{ bit<32> a; bit<32> b; bit<8> kind; }}
struct headers_t {{ h_t h; }}
struct meta_t {{ bool flag; bit<64> value; bit<8> class; }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
{locals}
apply {{ {apply} }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
    )
}

/// A PSA program with these declarations, locals of its ingress, and statements.
fn psa(declared: &str, locals: &str, apply: &str) -> String {
    format!(
        "#include <core.p4>\n#include <bmv2/psa.p4>\n{declared}
struct empty_t {{}}
header h_t {{ bit<32> a; bit<32> b; }}
struct headers_t {{ h_t h; }}
struct meta_t {{ PSA_MeterColor_t colour; }}
parser IP(packet_in p, out headers_t h, inout meta_t m, in psa_ingress_parser_input_metadata_t i, in empty_t a, in empty_t b) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
parser EP(packet_in p, out headers_t h, inout empty_t m, in psa_egress_parser_input_metadata_t i, in empty_t a, in empty_t b, in empty_t c) {{
    state start {{ transition accept; }}
}}
control I(inout headers_t h, inout meta_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {{
{locals}
apply {{ {apply} }}
}}
control E(inout headers_t h, inout empty_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) {{ apply {{}} }}
control ID(packet_out p, out empty_t a, out empty_t b, out empty_t c, inout headers_t h, in meta_t m, in psa_ingress_output_metadata_t o) {{
    apply {{ p.emit(h.h); }}
}}
control ED(packet_out p, out empty_t a, out empty_t b, inout headers_t h, in empty_t m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {{
    apply {{}}
}}
IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
"
    )
}

/// A frame whose header `h` begins with these numbers.
fn frame(a: u32, b: u32) -> Vec<u8> {
    let mut frame = vec![0; 100];
    frame[..4].copy_from_slice(&a.to_be_bytes());
    frame[4..8].copy_from_slice(&b.to_be_bytes());
    frame
}

/// The ports that a frame leaves by.
fn ports(worker: &mut p4jet_embed::Worker, frame: &[u8]) -> Vec<u32> {
    worker.process_one(0, frame).sent.into_iter().map(|(port, _)| port).collect()
}

fn exacts(values: &[u64]) -> Vec<p4jet_p4info::proto::v1::FieldMatch> {
    (1..).zip(values).map(|(id, value)| exact(id, *value)).collect()
}

/// The action `go` sends packets to a port.
const GO: &str = "action go(bit<9> port) { s.egress_spec = port; }";

#[test]
fn g_15_and_e_16_keys_have_the_width_of_their_expression() {
    let locals = "kind_t kind = (kind_t) h.h.kind;
        action set(bool flag, kind_t to) { m.flag = flag; kind = to; m.class = (bit<8>) kind; }
        table t {
            key = {
                h.h.isValid(): exact; m.flag: exact; kind: exact;
                h.h.a & 0x0f: exact @name(\"low\"); h.h.a[7:0]: exact @name(\"slice\");
            }
            actions = { set; NoAction; }
        }";
    let f = Fixture::of(&v1model("enum bit<8> kind_t { one = 1, two = 2 }", locals, "t.apply();"));
    let widths: Vec<i32> = f.pipeline.p4info().tables[0].match_fields.iter().map(|m| m.bitwidth).collect();
    assert_eq!(widths, [1, 1, 8, 32, 8]);
    let entry = |key: &[u64], set: [u64; 2]| f.entry("t", exacts(key), f.act("set", &set));
    // 255 and 200 have no names.
    let largest = [1, 1, 255, u32::MAX.into(), 255];
    assert_eq!(f.insert(entry(&largest, [1, 200])), OK);
    assert_eq!(f.all("t"), [entry(&largest, [1, 200])]);
    for place in 0..largest.len() {
        let mut key = largest;
        key[place] += 1;
        assert_eq!(f.insert(entry(&key, [0, 1])), RANGE, "{place}");
    }
    assert_eq!(f.modify(entry(&largest, [2, 1])), RANGE);
    assert_eq!(f.modify(entry(&largest, [1, 256])), RANGE);
}

#[test]
fn e_18_a_field_that_the_key_has_twice_has_two_ids() {
    let locals = format!(
        "{GO} table t {{ key = {{ h.h.a: exact; h.h.b: exact; h.h.a: exact; }} actions = {{ go; NoAction; }} }}"
    );
    let f = Fixture::of(&v1model("", &locals, "t.apply();"));
    let entry = |key: &[u64], port| f.entry("t", exacts(key), f.act("go", &[port]));
    assert_eq!(f.insert(entry(&[5, 6, 5], 1)), OK);
    assert_eq!(f.insert(entry(&[5, 6, 5], 2)), EXISTS);
    // No packet has it.
    assert_eq!(f.insert(entry(&[5, 6, 7], 2)), OK);
    assert_eq!(f.insert(entry(&[5, 6], 3)), INVALID);
    assert_eq!(f.all("t").len(), 2);
    assert_eq!(ports(&mut f.worker(0), &frame(5, 6)), [1]);
}

#[test]
fn e_45_no_entries_of_the_program() {
    let locals = format!(
        "{GO}
        table closed {{ key = {{ h.h.a: exact; }} actions = {{ go; NoAction; }} const entries = {{ }} }}
        table open {{ key = {{ h.h.a: exact; }} actions = {{ go; NoAction; }} entries = {{ }} }}"
    );
    let f = Fixture::of(&v1model("", &locals, "closed.apply(); open.apply();"));
    let flags: Vec<_> =
        f.pipeline.p4info().tables.iter().map(|t| (t.is_const_table, t.has_initial_entries)).collect();
    assert_eq!(flags, [(true, false), (false, false)]);
    assert_eq!(f.insert(f.entry("closed", exacts(&[1]), f.act("go", &[1]))), DENIED);
    assert_eq!(f.insert(f.entry("open", exacts(&[1]), f.act("go", &[1]))), OK);
    assert!(f.all("closed").is_empty());
}

#[test]
fn e_47_a_request_with_the_entries_of_the_program_changes_nothing() {
    let f = Fixture::new();
    let updates = generated(PROGRAM).unwrap().entries.updates;
    let expected = |update: &p4jet_p4info::proto::v1::Update| match &update.entity {
        Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) if entry.is_const => INVALID,
        Some(Entity { entity: Some(EntityKind::TableEntry(_)) }) => EXISTS,
        other => panic!("{other:?}"),
    };
    let expected: Vec<i32> = updates.iter().map(expected).collect();
    assert!(expected.contains(&INVALID) && expected.contains(&EXISTS), "{expected:?}");
    let before = f.entries(TableEntry::default());
    let errors = f.write(updates, Atomicity::ContinueOnError).errors.unwrap();
    assert_eq!(errors.iter().map(|error| error.canonical_code).collect::<Vec<_>>(), expected);
    assert_eq!(f.entries(TableEntry::default()), before);
    // With priorities in the source, as with those that p4c chooses.
    let table = |name: &str, properties: &str, entries: &str| {
        format!(
            "table {name} {{ key = {{ h.h.a: ternary; }} actions = {{ go; }} {properties} entries = {{ {entries} }} size = 16; }}\n"
        )
    };
    let last = "0x40 &&& 0xf0: go(3); priority=40: 0x40 &&& 0x70: go(4); _: go(5);";
    let locals = [
        table("chosen", "", &format!("priority=1000: 1: go(1); 2: go(2); priority=40: {last}")),
        table(
            "smallest",
            "largest_priority_wins = false;",
            &format!("priority=10: 1: go(1); 2: go(2); {last}"),
        ),
        table("steps", "priority_delta = 100;", &format!("1: go(1); {}", last.replace("priority=40: ", ""))),
        table("by_place", "", "1: go(1); 2: go(2);"),
    ];
    let apply = "chosen.apply(); smallest.apply(); steps.apply(); by_place.apply();";
    let program = v1model("", &format!("{GO}\n{}", locals.concat()), apply);
    let f = Fixture::of(&program);
    let updates = generated(&program).unwrap().entries.updates;
    // Each has another port.
    let port = |entry: &TableEntry| {
        let action = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
        let Some(TableActionType::Action(action)) = action else { panic!("{entry:?}") };
        (entry.table_id, action.params[0].value.last().copied(), entry.priority)
    };
    let expected = updates.iter().map(|update| match &update.entity {
        Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }) => port(entry),
        other => panic!("{other:?}"),
    });
    let mut expected: Vec<_> = expected.collect();
    let found = f.entries(TableEntry::default());
    let mut shown: Vec<_> = found.iter().map(port).collect();
    expected.sort_unstable();
    shown.sort_unstable();
    assert_eq!(shown, expected);
    let errors = f.write(updates, Atomicity::ContinueOnError).errors.unwrap();
    assert!(errors.iter().all(|error| error.canonical_code == EXISTS), "{errors:?}");
    // They are found by these priorities.
    for entry in found {
        assert_eq!(f.entries(entry.clone()), std::slice::from_ref(&entry));
        let other = TableEntry { action: f.act("go", &[7]), ..entry.clone() };
        assert_eq!((f.modify(other.clone()), f.entries(entry.clone())), (OK, vec![other]));
        assert_eq!((f.delete(entry.clone()), f.delete(entry.clone())), (OK, NOT_FOUND));
        assert_eq!((f.insert(entry.clone()), f.entries(entry.clone())), (OK, vec![entry]));
    }
}

#[test]
fn e_44_entries_of_the_program_win_as_in_bmv2() {
    // The numbers of the source are for clients. In bmv2, the program's entries have 1 to 2, and a client's 2147483647 minus its
    // priority; the smallest wins.
    let locals = format!(
        "{GO} table t {{
            key = {{ h.h.a: ternary; }}
            actions = {{ go; }}
            entries = {{ priority=100: 0x10 &&& 0xf0: go(1); priority=50: _: go(2); }}
            size = 16;
        }}"
    );
    let f = Fixture::of(&v1model("", &locals, "t.apply();"));
    let of = |value, mask, priority, port| TableEntry {
        priority,
        ..f.entry("t", vec![ternary(1, value, mask)], f.act("go", &[port]))
    };
    assert_eq!(f.insert(of(0x20, 0xf0, 75, 3)), OK);
    assert_eq!(f.insert(of(0x10, 0xff, 200, 4)), OK);
    let mut worker = f.worker(0);
    assert_eq!([0x20, 0x10].map(|a| ports(&mut worker, &frame(a, 0))), [[2], [1]]);
    // Without the program's entries, the larger priority of the client's wins.
    let second = TableEntry { priority: 50, ..f.entry("t", Vec::new(), None) };
    assert_eq!((f.delete(second), f.delete(of(0x10, 0xf0, 100, 1))), (OK, OK));
    assert_eq!(f.insert(of(0, 0x0f, 100, 5)), OK);
    assert_eq!([0x20, 0x10].map(|a| ports(&mut worker, &frame(a, 0))), [[5], [4]]);
}

const METER: MeterConfig = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1, eburst: 0 };

#[test]
fn e_54_the_action_uses_the_direct_resources() {
    let counts = Some(CounterData { packet_count: 1, byte_count: 0 });
    let colours = Some(MeterCounterData::default());
    // PSA: only the calls of an action use them.
    let locals = "DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
        DirectMeter(PSA_MeterType_t.PACKETS) speed;
        ActionSelector(PSA_HashAlgorithm_t.CRC32, 32w16, 32w16) paths;
        action counted() { hits.count(); }
        action measured() { m.colour = speed.execute(); }
        table t {
            key = { h.h.a: exact; }
            actions = { counted; measured; NoAction; }
            psa_direct_counter = hits; psa_direct_meter = speed;
        }
        DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) chosen;
        action counts() { chosen.count(); }
        table u {
            key = { h.h.a: exact; h.h.b: selector; }
            actions = { counts; NoAction; }
            psa_direct_counter = chosen; psa_implementation = paths;
        }";
    let f = Fixture::of(&psa("", locals, "t.apply(); u.apply(); ingress_drop(o);"));
    let of = |action: &str| f.entry("t", exacts(&[1]), f.act(action, &[]));
    let with_counts = |action: &str| TableEntry { counter_data: counts.clone(), ..of(action) };
    let with_meter = |action: &str| TableEntry { meter_config: Some(METER), ..of(action) };
    for (counter, meter, action) in
        [(OK, INVALID, "counted"), (INVALID, OK, "measured"), (INVALID, INVALID, "NoAction")]
    {
        for (code, entry) in [(counter, with_counts(action)), (meter, with_meter(action))] {
            assert_eq!(f.insert(entry.clone()), code, "{action}");
            assert_eq!(f.insert(of(action)), if code == OK { EXISTS } else { OK });
            assert_eq!(f.modify(entry.clone()), code, "{action}");
            // Without an action, the present one counts.
            assert_eq!(f.modify(TableEntry { action: None, ..entry.clone() }), code, "{action}");
            let default = TableEntry { is_default_action: true, r#match: Vec::new(), ..entry };
            assert_eq!(f.modify(default), code, "{action}");
            assert_eq!(f.delete(of(action)), OK);
        }
        let reset = TableEntry { meter_counter_data: colours.clone(), ..of(action) };
        assert_eq!(f.insert(reset), meter);
        f.delete(of(action));
    }
    // The default entry returns to `NoAction`.
    let default = TableEntry { is_default_action: true, r#match: Vec::new(), action: None, ..of("NoAction") };
    assert_eq!(f.modify(TableEntry { counter_data: counts.clone(), ..default.clone() }), INVALID);
    assert_eq!(f.modify(default), OK);
    let error = f.update(Insert, EntityKind::TableEntry(with_meter("counted")));
    assert!(error.message.contains("`meter_config` must be unset"), "{error:?}");
    // Members change without the entry; a one shot does not.
    let member = |id, action: &str| {
        let (action, action_profile_id) = (Some(f.action(action, &[])), f.profile("paths"));
        EntityKind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id: id, action })
    };
    let of = |of| TableEntry {
        counter_data: counts.clone(),
        ..f.entry("u", exacts(&[1]), Some(TableAction { r#type: Some(of) }))
    };
    let set = |action: &str| {
        let action = p4jet_p4info::proto::v1::ActionProfileAction {
            action: Some(f.action(action, &[])),
            weight: 1,
            watch_kind: None,
        };
        let set = p4jet_p4info::proto::v1::ActionProfileActionSet {
            action_profile_actions: vec![action],
            ..Default::default()
        };
        of(TableActionType::ActionProfileActionSet(set))
    };
    assert_eq!((f.insert(set("NoAction")), f.insert(set("counts"))), (INVALID, OK));
    assert_eq!(f.delete(set("counts")), OK);
    assert_eq!(f.code(Insert, member(1, "NoAction")), OK);
    assert_eq!(f.insert(of(TableActionType::ActionProfileMemberId(1))), OK);

    // v1model: every hit counts and measures, whatever the action calls.
    let f = Fixture::new();
    let entry = f.entry("aged", vec![exact(1, 0)], f.act("forward", &[1]));
    let asked = TableEntry { meter_counter_data: colours, action: None, ..entry.clone() };
    assert_eq!(f.insert(TableEntry { meter_config: Some(METER), counter_data: counts, ..entry }), OK);
    f.entries(asked.clone());
    f.worker(0).process_one(1, &[0; 60]);
    let shown = f.entries(asked)[0].meter_counter_data.clone().unwrap();
    assert_eq!(shown.green, Some(CounterData { packet_count: 1, byte_count: 60 }));
}

/// Two tables with one selector.
fn shared() -> Fixture {
    let table = |name| {
        format!(
            "table {name} {{
                key = {{ h.h.a: exact; h.h.b: selector; }}
                actions = {{ go; NoAction; }}
                implementation = paths;
            }}"
        )
    };
    let (one, two) = (table("one"), table("two"));
    let locals = format!("action_selector(HashAlgorithm.identity, 16, 16) paths; {GO} {one} {two}");
    Fixture::of(&v1model("", &locals, "s.egress_spec = 99; one.apply(); two.apply();"))
}

fn member(f: &Fixture, id: u32, port: u64) -> EntityKind {
    let (action, action_profile_id) = (Some(f.action("go", &[port])), f.profile("paths"));
    EntityKind::ActionProfileMember(ActionProfileMember { action_profile_id, member_id: id, action })
}

fn group(f: &Fixture, members: &[u32]) -> EntityKind {
    let member = |id: &u32| GroupMember { member_id: *id, weight: 1, watch_kind: None };
    EntityKind::ActionProfileGroup(ActionProfileGroup {
        action_profile_id: f.profile("paths"),
        group_id: 1,
        members: members.iter().map(member).collect(),
        max_size: 0,
    })
}

fn indirect(f: &Fixture, table: &str, of: TableActionType) -> TableEntry {
    f.entry(table, exacts(&[1]), Some(TableAction { r#type: Some(of) }))
}

#[test]
fn ap_17_tables_share_the_members_of_a_profile() {
    let f = shared();
    let entry = |table| indirect(&f, table, TableActionType::ActionProfileMemberId(1));
    assert_eq!(f.code(Insert, member(&f, 1, 7)), OK);
    assert_eq!((f.insert(entry("one")), f.insert(entry("two"))), (OK, OK));
    let mut worker = f.worker(0);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [7]);
    assert_eq!(f.delete(entry("one")), OK);
    assert_eq!(f.code(Modify, member(&f, 1, 8)), OK);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [8]);
    assert_eq!(f.code(Delete, member(&f, 1, 8)), IN_USE);
    assert_eq!(f.delete(entry("two")), OK);
    assert_eq!(f.code(Delete, member(&f, 1, 8)), OK);
}

#[test]
fn ap_17_a_member_has_an_action_of_all_tables_of_its_profile() {
    let table = |name: &str, actions: &str| {
        format!(
            "table {name} {{
                key = {{ h.h.a: exact; h.h.b: selector; }}
                actions = {{ {actions} NoAction; }}
                implementation = paths;
            }}"
        )
    };
    let (one, two) = (table("one", "flag; go;"), table("two", "go; class;"));
    let locals = format!(
        "action_selector(HashAlgorithm.identity, 16, 16) paths; {GO}
        action flag() {{ m.flag = true; }} action class() {{ m.class = 1; }} {one} {two}"
    );
    let f = Fixture::of(&v1model("", &locals, "s.egress_spec = 99; one.apply(); two.apply();"));
    for (name, data, words) in
        [("flag", &[][..], "`I.two` has no action with the id"), ("class", &[], "`I.one` has no action")]
    {
        let (action, action_profile_id) = (Some(f.action(name, data)), f.profile("paths"));
        let member = ActionProfileMember { action_profile_id, member_id: 1, action };
        let error = f.update(Insert, EntityKind::ActionProfileMember(member));
        assert_eq!(error.canonical_code, INVALID);
        assert!(error.message.contains(words), "{}", error.message);
    }
    // Both tables run the common action, whose place in their lists differs.
    assert_eq!(f.code(Insert, member(&f, 1, 7)), OK);
    let mut worker = f.worker(0);
    for name in ["one", "two"] {
        let entry = indirect(&f, name, TableActionType::ActionProfileMemberId(1));
        assert_eq!(f.insert(entry.clone()), OK);
        assert_eq!(ports(&mut worker, &frame(1, 0)), [7]);
        assert_eq!(f.delete(entry), OK);
        assert_eq!(ports(&mut worker, &frame(1, 0)), [99]);
    }
}

#[test]
fn ap_18_no_packet_sees_half_of_a_changed_group() {
    let f = shared();
    for id in 1..=5 {
        assert_eq!(f.code(Insert, member(&f, id, id.into())), OK);
    }
    assert_eq!(f.code(Insert, group(&f, &[1, 2])), OK);
    assert_eq!(f.insert(indirect(&f, "one", TableActionType::ActionProfileGroupId(1))), OK);
    let done = AtomicBool::new(false);
    let seen = [const { AtomicBool::new(false) }; 6];
    std::thread::scope(|scope| {
        let packets = scope.spawn(|| {
            let mut worker = f.worker(0);
            for number in 0.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                match ports(&mut worker, &frame(1, number))[..] {
                    [port @ 1..=5] => seen[port as usize].store(true, Ordering::SeqCst),
                    // The scope waits for `done`.
                    ref other => panic!("{other:?}"),
                }
            }
        });
        let all_seen = || seen[1..].iter().all(|seen| seen.load(Ordering::SeqCst));
        let end = Instant::now() + Duration::from_secs(60);
        let mut round = 0;
        // A busy machine may run either thread for long alone.
        while (round < 2000 || !all_seen()) && Instant::now() < end && !packets.is_finished() {
            let members: &[u32] = if round % 2 == 0 { &[3, 4, 5] } else { &[2, 1] };
            assert_eq!(f.code(Modify, group(&f, members)), OK);
            round += 1;
        }
        done.store(true, Ordering::SeqCst);
        packets.join().unwrap();
        assert!(all_seen(), "{seen:?} after {round} rounds");
    });
}

#[test]
fn z_8_an_empty_group_runs_no_action() {
    let f = shared();
    assert_eq!(f.code(Insert, group(&f, &[])), OK);
    assert_eq!(f.insert(indirect(&f, "one", TableActionType::ActionProfileGroupId(1))), OK);
    let mut worker = f.worker(0);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [99]);
    assert_eq!(f.code(Insert, member(&f, 3, 3)), OK);
    assert_eq!(f.code(Modify, group(&f, &[3])), OK);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [3]);
    assert_eq!(f.code(Modify, group(&f, &[])), OK);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [99]);
}

/// A table with PSA's `psa_empty_group_action`, and a statement that follows by which action ran.
fn with_empty_group_action(other: &str) -> Fixture {
    let locals = format!(
        "ActionSelector(PSA_HashAlgorithm_t.IDENTITY, 16, 16) paths;
        DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
        action go(PortId_t port) {{ send_to_port(o, port); }}
        action none_left(PortId_t port) {{ hits.count(); send_to_port(o, port); }}
        table one {{
            key = {{ h.h.a: exact; h.h.b: selector; }}
            actions = {{ go; none_left; NoAction; }}
            psa_implementation = paths;
            psa_direct_counter = hits;
            psa_empty_group_action = none_left((PortId_t) 55);
        }}
        {other}"
    );
    let apply = "send_to_port(o, (PortId_t) 99);
        switch (one.apply().action_run) {
            none_left: { h.h.b = 0xaaaaaaaa; }
            go: { h.h.b = 0xbbbbbbbb; }
            default: { h.h.b = 0xcccccccc; }
        }";
    Fixture::of(&psa("", &locals, apply))
}

#[test]
fn z_8_psa_runs_the_action_for_empty_groups() {
    // Another table of the profile lists the actions in another order.
    let other = "table two {
            key = { h.h.a: exact; h.h.b: selector; }
            actions = { NoAction; none_left; go; }
            psa_implementation = paths;
        }";
    let engines = [p4jet_embed::EngineKind::Interp, p4jet_embed::EngineKind::Jit];
    for (engine, other) in engines.into_iter().flat_map(|engine| [(engine, ""), (engine, other)]) {
        let f = with_empty_group_action(other);
        let mut worker = f.switch.control().switch().worker(engine, 0).unwrap();
        // The port, and what the statement after the table wrote.
        let mut run = |a: u32| match &worker.process_one(0, &frame(a, 3)).sent[..] {
            [(port, frame)] => (*port, frame[4]),
            other => panic!("{other:?}"),
        };
        let (empty, entry) = (group(&f, &[]), indirect(&f, "one", TableActionType::ActionProfileGroupId(1)));
        assert_eq!(f.code(Insert, empty.clone()), OK);
        assert_eq!(f.insert(entry.clone()), OK);
        // A packet without entry has the default action.
        assert_eq!(run(9), (99, 0xcc));
        assert_eq!(run(1), (55, 0xaa));
        assert_eq!(f.code(Insert, member(&f, 3, 3)), OK);
        assert_eq!(f.code(Modify, group(&f, &[3])), OK);
        assert_eq!(run(1), (3, 0xbb));
        assert_eq!(f.code(Modify, empty), OK);
        assert_eq!(run(1), (55, 0xaa));
        // It counts, as it does as the action of an entry.
        let read = TableEntry { counter_data: Some(CounterData::default()), ..entry.clone() };
        let [EntityKind::TableEntry(read)] = &f.read(EntityKind::TableEntry(read))[..] else { panic!("one") };
        assert_eq!(read.counter_data.as_ref().unwrap().packet_count, 2);
        assert_eq!(f.delete(entry), OK);
        assert_eq!(run(1), (99, 0xcc));
    }
}

#[test]
fn z_8_the_action_for_empty_groups_is_one_of_the_table() {
    let program = |value: &str| {
        psa(
            "",
            &format!(
                "ActionSelector(PSA_HashAlgorithm_t.IDENTITY, 16, 16) paths;
                action go(PortId_t port) {{ send_to_port(o, port); }}
                action other() {{}}
                table one {{
                    key = {{ h.h.a: exact; h.h.b: selector; }}
                    actions = {{ go; NoAction; }}
                    psa_implementation = paths;
                    psa_empty_group_action = {value};
                }}"
            ),
            "one.apply();",
        )
    };
    assert!(generated(&program("NoAction()")).is_ok() && generated(&program("NoAction")).is_ok());
    for (value, words) in [
        ("other()", "`other` is the action for empty groups of table `one`, but not in its list of actions"),
        ("7", "`psa_empty_group_action` must be an action of the table"),
        ("go((PortId_t) (PortIdUint_t) h.h.a)", "must be known at compile time"),
    ] {
        let error = generated(&program(value)).expect_err(value);
        assert!(error.contains(words), "{error}");
    }
}

fn counter(f: &Fixture, index: i64, packets: Option<i64>) -> EntityKind {
    let data = packets.map(|packet_count| CounterData { packet_count, byte_count: 0 });
    EntityKind::CounterEntry(CounterEntry {
        counter_id: f.counter("seen"),
        index: Some(Index { index }),
        data,
    })
}

fn counted(f: &Fixture, index: i64) -> i64 {
    match &f.read(counter(f, index, None))[..] {
        [EntityKind::CounterEntry(entry)] => entry.data.as_ref().unwrap().packet_count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn c_6_no_count_is_lost() {
    const PACKETS: i64 = 40_000;
    const LARGE: i64 = 1 << 40;
    let locals = format!(
        "counter(8, CounterType.packets) seen; {GO}
        table t {{ key = {{ h.h.b: exact; }} actions = {{ go; NoAction; }} size = 65536; }}"
    );
    let f = Fixture::of(&v1model("", &locals, "seen.count(h.h.a); seen.count(7); t.apply();"));
    std::thread::scope(|scope| {
        let mut worker = f.worker(0);
        let packets =
            scope.spawn(move || (0..PACKETS).for_each(|_| drop(worker.process_one(0, &frame(1, 2)))));
        let mut entry = 0;
        while !packets.is_finished() {
            entry = (entry + 1) % 65_000;
            f.insert(f.entry("t", exacts(&[entry]), f.act("go", &[1])));
            // A cell that no packet counts in, and one in which they do.
            assert_eq!(f.code(Modify, counter(&f, 2, Some(5))), OK);
            assert_eq!(f.code(Modify, counter(&f, 7, Some(LARGE))), OK);
            let count = counted(&f, 7);
            assert!((LARGE..=LARGE + PACKETS).contains(&count), "{count}");
        }
    });
    assert_eq!((counted(&f, 1), counted(&f, 2)), (PACKETS, 5));
}

#[test]
fn m_8_rates_hold() {
    let locals = "meter(2, MeterType.bytes) rates; counter(4, CounterType.packets) seen; bit<2> colour;";
    let apply = "rates.execute_meter(1, colour); seen.count((bit<32>) colour);";
    let f = Fixture::of(&v1model("", locals, apply));
    let config = MeterConfig { cir: 100_000, cburst: 1000, pir: 150_000, pburst: 1000, eburst: 0 };
    let meter = p4jet_p4info::proto::v1::MeterEntry {
        meter_id: f.meter("rates"),
        index: Some(Index { index: 1 }),
        config: Some(config),
        counter_data: None,
    };
    assert_eq!(f.code(Modify, EntityKind::MeterEntry(meter)), OK);
    let mut worker = f.worker(0);
    let begin = f.switch.control().switch().now_us() + 1_000_000;
    // 10 s with twice the committed rate: 2000 packets of 100 bytes per second.
    for number in 0..20_000 {
        worker.set_time(Some(begin + 500 * number));
        worker.process_one(0, &frame(0, 0));
    }
    let [green, yellow, red] = [0, 1, 2].map(|colour| counted(&f, colour));
    let within = |count: i64, share: i64| (count - share).abs() <= share / 100;
    assert!(within(green, 10_000) && within(yellow, 5_000) && within(red, 5_000), "{green} {yellow} {red}");
}

fn register(f: &Fixture, index: Option<i64>, value: Option<u64>) -> EntityKind {
    EntityKind::RegisterEntry(RegisterEntry {
        register_id: f.register("r"),
        index: index.map(|index| Index { index }),
        data: value.map(|value| P4Data { data: Some(DataValue::Bitstring(bytes(value))) }),
    })
}

fn cell(f: &Fixture, index: i64) -> u64 {
    match &f.read(register(f, Some(index), None))[..] {
        [EntityKind::RegisterEntry(RegisterEntry { data: Some(data), .. })] => match &data.data {
            Some(DataValue::Bitstring(bytes)) => {
                bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A host whose packets wait while a change is made.
struct Gate(Mutex<()>);

impl Around for Gate {
    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        let _held = self.0.lock().unwrap();
        change();
        Ok(())
    }
}

#[test]
fn rg_4_a_write_does_not_fall_into_an_atomic_block() {
    const PACKETS: u64 = 20_000;
    let apply =
        "@atomic { r.read(m.value, 0); m.value = m.value + 1; r.write(0, m.value); } r.write(1, m.value);";
    let f = Fixture::of(&v1model("", "register<bit<64>>(2) r;", apply));
    let r = f.switch.control().schema().register("r").unwrap();
    let gate = Arc::new(Gate(Mutex::new(())));
    let f = f.hosted(&gate);
    std::thread::scope(|scope| {
        let mut worker = f.worker(0);
        let packets = scope.spawn(move || {
            for _ in 0..PACKETS {
                let _packet = gate.0.lock().unwrap();
                worker.process_one(0, &frame(0, 0));
            }
        });
        let mut large = 0;
        while !packets.is_finished() {
            large += 1 << 32;
            match large >> 32 & 1 {
                0 => assert_eq!(f.code(Modify, register(&f, Some(0), Some(large))), OK),
                // As a runtime command.
                _ => {
                    let update = Update::WriteRegister { register: r, index: 0, value: large.into() };
                    assert!(f.switch.write(vec![update], All).0.results.iter().all(Result::is_ok));
                }
            }
            std::thread::yield_now();
            // A block that read the old value before and wrote afterwards would undo it.
            let now = cell(&f, 0);
            assert!((large..=large + PACKETS).contains(&now), "{now:#x} after {large:#x}");
        }
    });
}

#[test]
fn rg_5_a_million_cells_come_in_many_messages() {
    const CELLS: usize = 1_000_000;
    let f = Fixture::of(&v1model("", "register<bit<8>>(1000000) r;", "r.write(h.h.a, 1);"));
    assert_eq!(f.code(Modify, register(&f, Some(999_999), Some(7))), OK);
    let (mut pages, mut next) = (0, 0);
    let wanted = [Entity { entity: Some(register(&f, None, None)) }];
    let read = p4jet_p4runtime::read::read(&f.pipeline, &f.switch, &f.role, &wanted, &mut |page| {
        pages += 1;
        assert!(page.len() <= p4jet_p4runtime::read::PAGE_MAX);
        for entity in page {
            let value = u64::from(next == CELLS - 1) * 7;
            assert_eq!(entity.entity, Some(register(&f, Some(next as i64), Some(value))));
            next += 1;
        }
        true
    });
    assert_eq!((read, next), (Ok(()), CELLS));
    assert!(pages >= CELLS / p4jet_p4runtime::read::PAGE_MAX, "{pages}");
}

#[test]
fn vs_6_value_sets_of_tuples_are_refused() {
    let text = PROGRAM.replacen("value_set<bit<16>>(2) kinds", "value_set<tuple<bit<16>>>(2) kinds", 1);
    let error = generated(&text).err().unwrap();
    assert!(error.contains("tuple") && error.contains("kinds"), "{error}");
}

/// A field of a value set can have a type that is translated to strings, and so can the set itself.
#[test]
fn vs_2_members_can_be_texts() {
    let declared = "@p4runtime_translation(\"p4jet.example/vrf\", string) type bit<32> vrf_t;
        struct of_t { vrf_t vrf; bit<8> kind; }";
    let states = "value_set<vrf_t>(4) names;
    value_set<of_t>(4) pairs;
    state start { p.extract(h.h); transition select((vrf_t) h.h.a) { names: found; default: more; } }
    state more { transition select((vrf_t) h.h.a, h.h.kind) { pairs: found; default: accept; } }
    state found { m.flag = true; transition accept; }";
    let text = v1model(declared, "", "s.egress_spec = m.flag ? 9w7 : 9w8;");
    let f = Fixture::of(&text.replacen("state start { p.extract(h.h); transition accept; }", states, 1));
    let set = |name: &str, members: &[Vec<FieldMatch>]| {
        let members = members.iter().map(|of| ValueSetMember { r#match: of.clone() }).collect();
        EntityKind::ValueSetEntry(ValueSetEntry { value_set_id: f.value_set(name), members })
    };
    let names = set("names", &[vec![common::string(1, "red")], vec![common::string(1, "5")]]);
    let pairs = set(
        "pairs",
        &[vec![common::string(1, "red"), exact(2, 3)], vec![common::string(1, ""), exact(2, 4)]],
    );
    for entry in [&names, &pairs] {
        assert_eq!(f.code(Modify, entry.clone()), OK);
    }
    assert_eq!(f.read(set("names", &[])), [names]);
    assert_eq!(f.read(set("pairs", &[])), [pairs]);
    // Not UTF-8.
    let wrong = set("names", &[vec![exact(1, 0xff)]]);
    assert_eq!(f.code(Modify, wrong), INVALID);
    let mut worker = f.worker(0);
    // The first string has the highest number.
    for (vrf, kind, port) in [(u32::MAX, 0, 7), (5, 0, 7), (0, 4, 7), (0, 3, 8), (6, 0, 8)] {
        let mut frame = frame(vrf, 0);
        frame[8] = kind;
        assert_eq!(ports(&mut worker, &frame), [port], "{vrf} {kind}");
    }
}

#[test]
fn mc_8_copies_in_order_and_none_without_a_group() {
    let locals = "action to(bit<16> group, bit<9> port) { s.mcast_grp = group; s.egress_spec = port; }
        table t { key = { h.h.a: exact; } actions = { to; NoAction; } }";
    let f = Fixture::of(&v1model("", locals, "t.apply();"));
    assert_eq!(f.insert(f.entry("t", exacts(&[1]), f.act("to", &[7, 5]))), OK);
    let group = |ports: &[u64]| {
        let replica = |(instance, port): (u32, &u64)| Replica {
            port_kind: Some(PortKind::Port(bytes(*port))),
            instance,
            backup_replicas: Vec::new(),
        };
        let entry = MulticastGroupEntry {
            multicast_group_id: 7,
            replicas: (0..).zip(ports).map(replica).collect(),
            metadata: Default::default(),
        };
        let of = ReplicationType::MulticastGroupEntry(entry);
        EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
    };
    let mut worker = f.worker(0);
    assert!(ports(&mut worker, &frame(1, 0)).is_empty());
    assert_eq!(f.code(Insert, group(&[3, 1, 2, 3])), OK);
    assert_eq!(ports(&mut worker, &frame(1, 0)), [3, 1, 2, 3]);
    assert_eq!(f.code(Delete, group(&[])), OK);
    assert!(ports(&mut worker, &frame(1, 0)).is_empty());
}

#[test]
fn dg_11_names_of_digests() {
    let declared = "struct learn_t { bit<32> a; bit<32> b; }";
    let apply = "digest<learn_t>(1, { h.h.a, h.h.b }); digest<learn_t>(2, { h.h.b, h.h.a });
        digest<tuple<bit<32>, bit<8>>>(1, { h.h.a, h.h.kind }); digest(1, { h.h.kind });";
    let f = Fixture::of(&v1model(declared, "", apply));
    let names: Vec<_> =
        f.pipeline.p4info().digests.iter().map(|d| d.preamble.clone().unwrap().name).collect();
    assert_eq!(names, ["learn_t", "digest_0", "digest_1"]);
    // P4Info numbers the calls of a control before those of the controls that it applies, and the program does, too: the other
    // order, in which they run, would give them other widths.
    let declared = "control Inner(in bit<32> b) { apply { digest(1, b); } }
        control Outer(in bit<32> b, in bit<8> c) { Inner() inner; apply { inner.apply(b); digest(1, c); } }";
    let locals = "Outer() outer; Inner() inner;
        action told() { digest(1, h.h.a ++ h.h.b); }
        table t { key = { h.h.a: exact; } actions = { told; NoAction; } }";
    let apply = "outer.apply(h.h.b, h.h.kind); inner.apply(h.h.a); t.apply(); digest(1, s.ingress_port);";
    let f = Fixture::of(&v1model(
        &format!("{declared}\nvoid tell<T>(in T x) {{ digest<T>(1, x); }}"),
        locals,
        apply,
    ));
    let widths = |f: &Fixture| {
        let control = f.switch.control();
        let width = |digest: &p4jet_p4info::proto::config::Digest| {
            let name = &digest.preamble.as_ref().unwrap().name;
            let found = control.program().instances.iter().find(|instance| instance.name == *name).unwrap();
            let p4jet_ir::InstanceKind::Digest { fields } = &found.kind else { panic!("{found:?}") };
            (name.clone(), fields[0].1)
        };
        f.pipeline.p4info().digests.iter().map(width).collect::<Vec<_>>()
    };
    let expected = [64, 9, 8, 32].map(|width| width);
    let expected: Vec<_> = (0..).map(|n| format!("digest_{n}")).zip(expected).collect();
    assert_eq!(widths(&f), expected);
    // One call in a function, with data of two types.
    let declared = "void tell<T>(in T x) { digest<T>(1, x); }";
    let f = Fixture::of(&v1model(
        declared,
        "",
        "tell<bit<8>>(h.h.kind); tell<bit<32>>(h.h.a); tell<bit<8>>(8w1);",
    ));
    assert_eq!(widths(&f), [("digest_0".to_string(), 8), ("digest_1".to_string(), 32)]);
}

#[test]
fn it_6_both_architectures_have_idle_timeouts() {
    let v1model = format!(
        "{GO} table t {{ key = {{ h.h.a: exact; }} actions = {{ go; NoAction; }} support_timeout = true; }}
        table u {{ key = {{ h.h.a: exact; }} actions = {{ go; NoAction; }} support_timeout = false; }}"
    );
    let v1model = self::v1model("", &v1model, "t.apply(); u.apply();");
    let table = |name: &str, kind: &str| {
        format!(
            "table {name} {{ key = {{ h.h.a: exact; }} actions = {{ NoAction; }}
            psa_idle_timeout = PSA_IdleTimeout_t.{kind}; }}"
        )
    };
    let psa = table("t", "NOTIFY_CONTROL") + &table("u", "NO_TIMEOUT");
    let psa = self::psa("", &psa, "t.apply(); u.apply(); ingress_drop(o);");
    for text in [v1model, psa] {
        let f = Fixture::of(&text);
        let behaviour: Vec<i32> =
            f.pipeline.p4info().tables.iter().map(|table| table.idle_timeout_behavior).collect();
        assert_eq!(behaviour, [1, 0]);
        let entry = |table| TableEntry {
            idle_timeout_ns: 1_000_000_000,
            ..f.entry(table, exacts(&[1]), f.act("NoAction", &[]))
        };
        assert_eq!((f.insert(entry("t")), f.insert(entry("u"))), (OK, INVALID));
    }
}

#[test]
fn tr_9_an_index_of_a_translated_type_is_the_clients_number() {
    let declared = "@p4runtime_translation(\"p4jet.example/index\", 32) type bit<12> index_t;";
    let locals = "Counter<bit<32>, index_t>(8, PSA_CounterType_t.PACKETS) seen;
        Register<bit<64>, index_t>(8) r;";
    let apply = "seen.count((index_t) 12w3); r.write((index_t) 12w3, 64w9); ingress_drop(o);";
    let f = Fixture::of(&psa(declared, locals, apply));
    let name = |name: &Option<p4jet_p4info::proto::config::P4NamedType>| name.clone().unwrap().name;
    let info = f.pipeline.p4info();
    assert_eq!(name(&info.counters[0].index_type_name), "index_t");
    assert_eq!(name(&info.registers[0].index_type_name), "index_t");
    f.worker(0).process_one(1, &frame(0, 0));
    assert_eq!((counted(&f, 3), counted(&f, 2), cell(&f, 3), cell(&f, 2)), (1, 0, 9, 0));
    assert_eq!(f.code(Modify, counter(&f, 4, Some(6))), OK);
    assert_eq!(counted(&f, 4), 6);
    assert_eq!(f.code(Modify, counter(&f, 8, Some(6))), RANGE);
    assert_eq!(f.code(Modify, register(&f, Some(8), Some(6))), RANGE);
}

/// A table with these annotations, whose key is `a`.
fn annotated(annotations: &str) -> Fixture {
    let locals = format!(
        "{GO} {annotations} table t {{ key = {{ h.h.a: exact @name(\"a\"); }} actions = {{ go; NoAction; }} }}"
    );
    Fixture::of(&v1model("#define LIMIT 9", &locals, "t.apply();"))
}

#[test]
fn cn_7_the_preprocessor_works_inside_strings_of_several_lines() {
    let f = annotated(
        "@entry_restriction(\"
#ifdef WIDE
            a::value < 100000
#else
            a::value < LIMIT /* and no more */
#endif
        \")",
    );
    let code = |a| f.insert(f.entry("t", exacts(&[a]), f.act("go", &[1])));
    assert_eq!((code(8), code(9)), (OK, INVALID));
}

#[test]
fn cn_8_adjacent_strings_are_lines() {
    let f = annotated("@entry_restriction(\"// the first\" \"a != 1;\" \"a != 2\")");
    let entry = |a| EntityKind::TableEntry(f.entry("t", exacts(&[a]), f.act("go", &[1])));
    let why = |a| f.update(Insert, entry(a)).message;
    assert!(why(1).contains("a != 1") && why(2).contains("a != 2"), "{} {}", why(1), why(2));
    assert_eq!(why(3), "");
}

#[test]
fn cn_10_other_annotations_are_carried_through() {
    let f = annotated("@nonessential_for_upgrade @sai_acl(INGRESS) @unsupported @deprecated(\"next year\")");
    let found = f.pipeline.p4info().tables[0].preamble.clone().unwrap().annotations;
    for wanted in
        ["@nonessential_for_upgrade", "@sai_acl(INGRESS)", "@unsupported", "@deprecated(\"next year\")"]
    {
        assert!(found.iter().any(|annotation| annotation == wanted), "{wanted}: {found:?}");
    }
    assert_eq!(f.insert(f.entry("t", exacts(&[1]), f.act("go", &[1]))), OK);
}

#[test]
fn pi_22_names_have_the_path_of_instances_and_are_unique() {
    let sub = "control Sub(inout bit<32> a) {
        action set(bit<32> to) { a = to; }
        table t { key = { a: exact; } actions = { set; NoAction; } }
        apply { t.apply(); }
    }";
    let text = v1model(sub, "Sub() one; Sub() two;", "one.apply(h.h.a); two.apply(h.h.b);");
    let f = Fixture::of(&text);
    let names: Vec<_> = f.pipeline.p4info().tables.iter().map(|t| t.preamble.clone().unwrap().name).collect();
    assert_eq!(names, ["I.one.t", "I.two.t"]);
    assert_eq!(f.insert(f.entry("two.t", exacts(&[1]), f.act("two.set", &[9]))), OK);
    assert!(f.all("one.t").is_empty());
    let table = |name: &str| {
        format!("@name(\".same\") table {name} {{ key = {{ h.h.a: exact; }} actions = {{ NoAction; }} }}")
    };
    let text = v1model("", &(table("x") + &table("y")), "x.apply(); y.apply();");
    let error = generated(&text).err().unwrap();
    assert!(error.contains("same"), "{error}");
}

#[test]
fn z_6_the_counter_of_a_const_default_action_can_be_set() {
    let locals = format!(
        "direct_counter(CounterType.packets) hits; {GO}
        table t {{
            key = {{ h.h.a: exact; }}
            actions = {{ go; NoAction; }}
            const default_action = NoAction();
            counters = hits;
        }}"
    );
    let f = Fixture::of(&v1model("", &locals, "t.apply();"));
    let counts = Some(CounterData { packet_count: 5, byte_count: 0 });
    let default = TableEntry { is_default_action: true, ..f.entry("t", Vec::new(), None) };
    let written = TableEntry { counter_data: counts.clone(), ..default.clone() };
    assert_eq!(f.modify(TableEntry { action: f.act("NoAction", &[]), ..written.clone() }), DENIED);
    assert_eq!(f.modify(default), DENIED);
    assert_eq!(f.modify(written.clone()), OK);
    assert_eq!(f.entries(written)[0].counter_data, counts);
}
