//! A P4Info whose types are not those of the program is refused, in a time that its size bounds.

use crate::common::{Fixture, OK, RANGE, exact, p4info, processor_time};
use p4jet_p4info::proto::config::{
    ActionProfile, BitstringType, CounterUnit, DataType, DirectMeter, IdleTimeoutBehavior, MeterUnit,
    P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4Info, P4NamedType,
    P4StructTypeSpec, P4TypeInfo, Preamble, Representation, SdnString, SdnType, StructMember, Table,
    TableActionCall,
};
use p4jet_p4info::proto::v1::{Exact, FieldMatchType, TableActionType};
use p4jet_p4runtime::pipeline::Pipeline;
use p4jet_p4runtime::types::check;
use std::time::Duration;

/// Registers and digests of all types that P4Runtime reads and writes, and references of all kinds.
const TYPES: &str = r#"
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("p4jet.example/vrf", string) type bit<10> vrf_t;
@p4runtime_translation("p4jet.example/hop", string) type bit<10> hop_t;
@p4runtime_translation("p4jet.example/label", 32) type bit<12> label_t;
type bit<16> plain_t;
enum Color { RED, GREEN, BLUE }
enum bit<8> Kind { A = 1, B = 2 }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header pair_t { bit<24> x; int<8> y; }
struct inner_t { bit<12> a; bool b; }
struct cell_t { inner_t inner; Kind kind; vrf_t vrf; plain_t plain; tuple<bit<7>, bool> both; }
struct learned_t { bit<48> mac; vrf_t vrf; bool flag; Kind kind; inner_t inner; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { vrf_t vrf; hop_t hop; label_t label; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(2) kinds;
    state start {
        p.extract(h.ethernet);
        transition select(h.ethernet.kind) { kinds: more; default: accept; }
    }
    state more { m.vrf = (vrf_t) 1; transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<cell_t>(4) cells;
    register<Color>(4) colors;
    register<pair_t>(4) pairs;
    register<error>(4) errors;
    register<bit<48>>(4) stamps;
    direct_counter(CounterType.packets) hits;
    action_profile(4) fixed;
    counter(2, CounterType.packets_and_bytes) counts;
    meter(2, MeterType.bytes) rates;
    action drop() { mark_to_drop(s); }
    action go(vrf_t vrf, label_t label) { m.vrf = vrf; m.label = label; }
    action learn() {
        digest<learned_t>(1, { h.ethernet.src, m.vrf, true, Kind.B, { 12w5, false } });
    }
    table first {
        key = { m.vrf: exact @name("vrf"); m.hop: exact @name("hop"); }
        actions = { go; learn; drop; NoAction; }
        counters = hits;
        default_action = drop;
    }
    table second {
        key = { h.ethernet.dst: exact; }
        actions = { go; drop; NoAction; }
        const default_action = drop;
        support_timeout = true;
    }
    table third {
        key = { h.ethernet.src: exact; }
        actions = { go; NoAction; }
        implementation = fixed;
    }
    apply {
        cell_t cell;
        cells.read(cell, 0);
        cells.write(1, cell);
        colors.write(0, Color.RED);
        counts.count(0);
        bit<8> colour;
        rates.execute_meter(0, colour);
        pair_t pair;
        pairs.read(pair, 0);
        pairs.write(1, pair);
        errors.write(0, error.NoError);
        stamps.write(0, s.ingress_global_timestamp);
        first.apply();
        second.apply();
        third.apply();
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

fn named(name: &str) -> P4NamedType {
    P4NamedType { name: name.to_string() }
}

fn spec(of: DataType) -> Option<P4DataTypeSpec> {
    Some(P4DataTypeSpec { type_spec: Some(of) })
}

fn bit(bitwidth: i32) -> Option<P4DataTypeSpec> {
    let type_spec = Some(BitstringType::Bit(P4BitTypeSpec { bitwidth }));
    spec(DataType::Bitstring(P4BitstringLikeTypeSpec { type_spec, ..Default::default() }))
}

fn types(info: &mut P4Info) -> &mut P4TypeInfo {
    info.type_info.as_mut().unwrap()
}

fn called<'a, T>(all: &'a mut [T], preamble: impl Fn(&T) -> &Option<Preamble>, name: &str) -> &'a mut T {
    let is = |object: &&mut T| preamble(object).as_ref().unwrap().name == name;
    all.iter_mut().find(is).unwrap_or_else(|| panic!("no {name}"))
}

fn register<'a>(info: &'a mut P4Info, name: &str) -> &'a mut Option<P4DataTypeSpec> {
    &mut called(&mut info.registers, |register| &register.preamble, name).type_spec
}

fn table<'a>(info: &'a mut P4Info, name: &str) -> &'a mut Table {
    called(&mut info.tables, |table| &table.preamble, name)
}

/// A program with parameters and keys whose types have no width in a P4Info.
const WITHOUT_WIDTH: &str = r#"
#include <core.p4>
#include <v1model.p4>
enum Color { RED, GREEN, BLUE }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
struct meta_t { bit<32> found; error last; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply {} }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action paint(Color color, bit<9> port) {
        mark_to_drop(s);
        if (color == Color.GREEN) { s.egress_spec = port; }
    }
    action fail(error why) { m.last = why; }
    table t {
        key = { h.ethernet.kind: exact; }
        actions = { paint; fail; NoAction; }
        default_action = NoAction();
    }
    table u {
        key = { m.last: exact; m.found: exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply { t.apply(); u.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// The numbers of members of enums without representation, and of errors, are 32 bits wide.
#[test]
fn p_15_a_program_fits_its_own_p4info() {
    let f = Fixture::of(WITHOUT_WIDTH);
    let own = f.pipeline.p4info().clone();
    let action = called(&mut own.clone().actions, |action| &action.preamble, "I.paint").clone();
    assert_eq!((action.params[0].bitwidth, &action.params[0].type_name), (0, &Some(named("Color"))));
    for (kind, action) in
        [(1, f.act("paint", &[1, 7])), (2, f.act("paint", &[2, 7])), (3, f.act("fail", &[1]))]
    {
        let entry = f.entry("t", vec![exact(1, kind)], action);
        assert_eq!(f.insert(entry.clone()), OK);
        assert!(f.all("t").contains(&entry));
    }
    assert_eq!(f.insert(f.entry("u", vec![exact(1, 2), exact(2, 3)], f.act("NoAction", &[]))), OK);
    let sent = |kind: u8| {
        let frame = [&[0; 13][..], &[kind], &[0; 46]].concat();
        f.worker(0).process_one(1, &frame).sent.into_iter().map(|(port, _)| port).collect::<Vec<_>>()
    };
    assert_eq!((sent(1), sent(2)), (vec![7], vec![]));
    // The order of the members counts.
    let mut given = own.clone();
    types(&mut given).enums.get_mut("Color").unwrap().members.swap(0, 1);
    let reasons = check(&given, &own).join("; ");
    assert!(reasons.contains("the enum `Color`: member 1 is `GREEN` in the P4Info and `RED`"), "{reasons}");
    // Other fields have a width.
    let mut given = own;
    table(&mut given, "I.t").match_fields[0].bitwidth = 0;
    let reasons = Pipeline::new(given, &f.switch.control()).err().unwrap_or_default().join("; ");
    assert!(reasons.contains("has 0 bits in the P4Info and 16 in the program"), "{reasons}");
}

/// Objects are found by name in a time that does not grow with the product of their numbers.
#[test]
fn p_15_a_large_p4info_is_refused_soon() {
    let f = Fixture::of(TYPES);
    let mut given = f.pipeline.p4info().clone();
    let of = |prefix: u32, n: u32, name: &str| {
        Some(Preamble { id: prefix << 24 | (n + 1), name: format!("{name}{n}"), ..Preamble::default() })
    };
    for n in 0..100_000 {
        given.tables.push(Table { preamble: of(2, n, "t"), ..Table::default() });
        given.action_profiles.push(ActionProfile {
            preamble: of(0x11, n, "p"),
            table_ids: vec![2 << 24 | (n + 1)],
            ..ActionProfile::default()
        });
        given.direct_meters.push(DirectMeter {
            preamble: of(0x15, n, "m"),
            direct_table_id: 2 << 24 | (n + 1),
            ..DirectMeter::default()
        });
    }
    let begun = processor_time();
    let reasons = Pipeline::new(given, &f.switch.control()).err().unwrap_or_default();
    let took = processor_time() - begun;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(reasons.len(), 21, "{reasons:?}");
    assert!(reasons[0].contains("the program has no") && reasons[20].starts_with("and "), "{reasons:?}");
}

/// A change of a P4Info, and what the refusal says.
type Case<'a, T = &'a str> = (&'a dyn Fn(&mut P4Info), T);

#[test]
fn p_16_types_are_those_of_the_program() {
    let own = p4info(TYPES);
    assert_eq!(check(&own, &own), [""; 0]);
    let cases: [Case<'_>; 24] = [
        (
            &|i| i.digests[0].type_spec = spec(DataType::Bool(P4BoolType {})),
            "the digest `learned_t`: `type_spec` is bool in the P4Info and the struct `learned_t` in the program",
        ),
        (
            &|i| i.digests[0].type_spec = spec(DataType::Struct(named("nowhere"))),
            "the digest `learned_t`: `type_spec` is the struct `nowhere` in the P4Info and the struct `learned_t` in the",
        ),
        (
            &|i| i.digests[0].preamble.as_mut().unwrap().name = "other_t".to_string(),
            "the program has no digest `other_t`",
        ),
        (&|i| i.digests[0].type_spec = None, "`type_spec` is unset in the P4Info and the struct `learned_t`"),
        (
            &|i| types(i).structs.get_mut("learned_t").unwrap().members.truncate(3),
            "the digest `learned_t`: `type_spec`: the struct `learned_t` has 3 members in the P4Info, \
             expected 5 members: `mac`, `vrf`, `flag`, `kind`, `inner`",
        ),
        (
            &|i| types(i).structs.get_mut("learned_t").unwrap().members[0].type_spec = bit(8),
            "the struct `learned_t`: the member `mac` is bit<8> in the P4Info and bit<48> in the program",
        ),
        (
            &|i| types(i).structs.get_mut("learned_t").unwrap().members.swap(0, 1),
            "the struct `learned_t`: member 1 is `vrf` in the P4Info and `mac` in the program",
        ),
        (
            &|i| drop(types(i).structs.remove("inner_t")),
            "the struct `inner_t` is not in `type_info.structs`, expected 2 members: `a`, `b`",
        ),
        (
            &|i| i.type_info = None,
            "the register `I.errors`: `type_spec`: `error` is not in `type_info.error`",
        ),
        (
            &|i| types(i).structs.get_mut("inner_t").unwrap().members[0].type_spec = bit(99),
            "the member `a` is bit<99> in the P4Info and bit<12> in the program",
        ),
        (
            &|i| types(i).enums.get_mut("Color").unwrap().members[0].name = "PURPLE".to_string(),
            "the register `I.colors`: `type_spec`: the enum `Color`: member 1 is `PURPLE` in the P4Info and `RED` in the program",
        ),
        (
            &|i| {
                let kind = types(i).serializable_enums.get_mut("Kind").unwrap();
                kind.members[1].value = vec![7].into();
            },
            "the enum `Kind`: the member `B` is 0x07 in the P4Info and 0x02 in the program",
        ),
        (
            &|i| {
                let kind = types(i).serializable_enums.get_mut("Kind").unwrap();
                kind.underlying_type = Some(P4BitTypeSpec { bitwidth: 16 });
            },
            "the enum `Kind` is bit<16> in the P4Info and bit<8> in the program",
        ),
        (
            &|i| types(i).error.as_mut().unwrap().members.push("Unheard".to_string()),
            "the register `I.errors`: `type_spec`: `error`: the program has no member `Unheard`",
        ),
        (
            &|i| drop(types(i).enums.get_mut("Color").unwrap().members.remove(0)),
            "the enum `Color`: member 1 is `GREEN` in the P4Info and `RED` in the program",
        ),
        (
            &|i| {
                let pair = types(i).headers.get_mut("pair_t").unwrap();
                pair.members[1].type_spec = pair.members[0].type_spec.clone();
            },
            "the header `pair_t`: the member `y` is bit<24> in the P4Info and int<8> in the program",
        ),
        (
            &|i| *register(i, "I.stamps") = spec(DataType::NewType(named("vrf_t"))),
            "the register `I.stamps`: `type_spec` is the type `vrf_t` in the P4Info and bit<48> in the program",
        ),
        (
            &|i| {
                let plain = types(i).new_types.get_mut("plain_t").unwrap();
                plain.representation = bit(17).map(Representation::OriginalType);
            },
            "the type `plain_t` is bit<17> in the P4Info and bit<16> in the program",
        ),
        (
            &|i| {
                let label = types(i).new_types.get_mut("label_t").unwrap();
                let Some(Representation::TranslatedType(of)) = &mut label.representation else { panic!() };
                of.sdn_type = Some(SdnType::SdnString(SdnString {}));
            },
            "the type `label_t` is translated to strings in the P4Info and translated to 32 bits in the program",
        ),
        (
            &|i| {
                let vrf = types(i).new_types.get_mut("vrf_t").unwrap();
                vrf.representation = bit(10).map(Representation::OriginalType);
            },
            "the type `vrf_t` is bit<10> in the P4Info and translated to strings in the program",
        ),
        (
            &|i| table(i, "I.first").match_fields[0].type_name = Some(named("hop_t")),
            "the table `I.first`: `type_name` of `vrf` is the type `hop_t` in the P4Info and the type `vrf_t` in the program",
        ),
        (
            &|i| {
                let go = called(&mut i.actions, |action| &action.preamble, "I.go");
                go.params[0].type_name = Some(named("none_t"));
            },
            "the action `I.go`: `type_name` of `vrf` is the type `none_t` in the P4Info and the type `vrf_t` in the program",
        ),
        (
            &|i| i.value_sets[0].r#match[0].type_name = Some(named("vrf_t")),
            "the value set `P.kinds`: `type_name` of its field is the type `vrf_t` in the P4Info and unset in the program",
        ),
        (
            &|i| i.registers[0].index_type_name = Some(named("vrf_t")),
            "`index_type_name` is the type `vrf_t` in the P4Info and unset in the program",
        ),
    ];
    for (change, words) in cases {
        let mut given = own.clone();
        change(&mut given);
        let found = check(&given, &own);
        assert!(found.iter().any(|why| why.contains(words)), "expected {words}\nfound {found:#?}");
    }
    // What needs not be the same: annotations, places, unused types and the padding of values.
    let mut given = own.clone();
    types(&mut given).structs.insert("unused".to_string(), P4StructTypeSpec::default());
    types(&mut given).structs.get_mut("inner_t").unwrap().annotations.push("@new".to_string());
    types(&mut given).serializable_enums.get_mut("Kind").unwrap().members[0].value = vec![0, 0, 1].into();
    given.registers.truncate(1);
    assert_eq!(check(&given, &own), [""; 0]);
    // What older compilers leave out: errors and members with values, whose names and values travel, the last other members, and the
    // types of keys and parameters, whose values are not translated then.
    let mut given = own.clone();
    types(&mut given).error.as_mut().unwrap().members.remove(0);
    types(&mut given).serializable_enums.get_mut("Kind").unwrap().members.remove(0);
    types(&mut given).enums.get_mut("Color").unwrap().members.pop();
    types(&mut given).new_types.remove("label_t");
    types(&mut given).new_types.remove("hop_t");
    table(&mut given, "I.first").match_fields[1].bitwidth = 10;
    called(&mut given.actions, |action| &action.preamble, "I.go").params[1].bitwidth = 12;
    assert_eq!(check(&given, &own), [""; 0]);
    let f = Fixture::of(TYPES);
    let pipeline = Pipeline::new(given, &f.switch.control()).unwrap_or_else(|why| panic!("{why:#?}"));
    let f = Fixture { pipeline, ..f };
    // `hop_t` has numbers now, within the width of the program.
    let mut entry = f.entry("first", vec![exact(1, 0), exact(2, 1023)], f.act("go", &[0, 4095]));
    entry.r#match[0].field_match_type = Some(FieldMatchType::Exact(Exact { value: "tenant".into() }));
    let Some(TableActionType::Action(go)) = entry.action.as_mut().and_then(|a| a.r#type.as_mut()) else {
        panic!()
    };
    go.params[0].value = "tenant".into();
    assert_eq!((f.insert(entry.clone()), f.all("first")), (OK, vec![entry.clone()]));
    entry.r#match[1] = exact(2, 1024);
    assert_eq!(f.insert(entry), RANGE);
}

#[test]
fn p_15_references_are_to_objects_of_the_p4info_that_fit() {
    let f = Fixture::of(TYPES);
    let control = f.switch.control();
    let own = f.pipeline.p4info();
    let id = |name: &str| own.actions.iter().find(|a| a.preamble.as_ref().unwrap().name == name).unwrap();
    let id = |name: &str| id(name).preamble.as_ref().unwrap().id;
    let (drop_id, no_action) = (id("I.drop"), id("NoAction"));
    let hits = own.direct_counters[0].preamble.as_ref().unwrap().id;
    let call = |action_id| Some(TableActionCall { action_id, ..Default::default() });
    let cases: [Case<'_, String>; 18] = [
        (
            &|i| table(i, "I.first").direct_resource_ids.push(0x1200_0001),
            format!(
                "`direct_resource_ids` has {}, which is not in the P4Info; direct counters and meters of the table: {hits}",
                0x1200_0001
            ),
        ),
        (
            &|i| table(i, "I.second").direct_resource_ids.push(hits),
            format!(
                "`I.second`: `direct_resource_ids` has {hits}, that of another table; direct counters and meters of the table: there is none"
            ),
        ),
        (
            &|i| i.direct_counters[0].direct_table_id = table(i, "I.second").preamble.as_ref().unwrap().id,
            "`I.hits`: `I.second` has no direct counter in the program".to_string(),
        ),
        (
            &|i| table(i, "I.first").const_default_action_id = drop_id,
            format!(
                "`I.first`: `const_default_action_id` is {drop_id}, expected 0: the default action of the program is not const"
            ),
        ),
        (
            &|i| table(i, "I.second").const_default_action_id = no_action,
            format!(
                "`I.second`: `const_default_action_id` is {no_action}, `NoAction`, expected {drop_id}, the default action `I.drop` of"
            ),
        ),
        (
            &|i| table(i, "I.second").const_default_action_id = 0x0100_0007,
            format!(
                "`const_default_action_id` is {}, which is not in the P4Info, expected {drop_id}",
                0x0100_0007
            ),
        ),
        (
            &|i| table(i, "I.first").initial_default_action = call(no_action),
            format!("`I.first`: `initial_default_action` is {no_action}, `NoAction`, expected {drop_id}"),
        ),
        (
            &|i| {
                let first = table(i, "I.first").preamble.as_ref().unwrap().id;
                i.action_profiles[0].table_ids.push(first);
            },
            "which is no table with this `implementation_id`; those with it: ".to_string(),
        ),
        (
            &|i| i.action_profiles[0].table_ids.push(0x02ab_cdef),
            format!("`I.fixed`: `table_ids` has {}, which is no table with", 0x02ab_cdef),
        ),
        (
            &|i| i.tables.retain(|table| table.implementation_id == 0),
            "`I.fixed`: `table_ids` has ".to_string(),
        ),
        (
            &|i| i.action_profiles[0].size = 9,
            "`I.fixed` has the size 9 in the P4Info and 4 in the program".to_string(),
        ),
        (
            &|i| i.value_sets[0].size = 5,
            "the value set `P.kinds` has the size 5 in the P4Info and 2 in the program".to_string(),
        ),
        (
            &|i| i.counters[0].spec.as_mut().unwrap().unit = CounterUnit::Bytes as i32,
            "the counter `I.counts` has the unit Bytes in the P4Info and Both in the program".to_string(),
        ),
        (
            &|i| i.direct_counters[0].spec.as_mut().unwrap().unit = CounterUnit::Both as i32,
            "the counter `I.hits` has the unit Both in the P4Info and Packets in the program".to_string(),
        ),
        (
            &|i| i.meters[0].spec.as_mut().unwrap().unit = MeterUnit::Packets as i32,
            "the meter `I.rates` has the unit Packets in the P4Info and Bytes in the program".to_string(),
        ),
        (
            &|i| table(i, "I.first").idle_timeout_behavior = IdleTimeoutBehavior::NotifyControl as i32,
            "only one of P4Info and program gives `I.first` idle timeouts".to_string(),
        ),
        (
            &|i| table(i, "I.second").idle_timeout_behavior = IdleTimeoutBehavior::NoTimeout as i32,
            "only one of P4Info and program gives `I.second` idle timeouts".to_string(),
        ),
        (
            &|i| {
                let again = table(i, "I.first").action_refs[0].clone();
                table(i, "I.first").action_refs.push(again);
            },
            "`I.first` lists the action `I.go` twice".to_string(),
        ),
    ];
    for (change, words) in cases {
        let mut given = own.clone();
        change(&mut given);
        let found = Pipeline::new(given, &control).err().unwrap_or_default();
        assert!(found.iter().any(|why| why.contains(&words)), "expected {words}\nfound {found:#?}");
    }
}

/// Structs `l0` to `l(levels)` with `width` members each of the next one; the last has these members.
fn nested(levels: usize, width: usize, last: Vec<StructMember>) -> P4TypeInfo {
    let member = |name: String, type_spec| StructMember { name, type_spec };
    let mut types = P4TypeInfo::default();
    for level in 0..levels {
        let next = spec(DataType::Struct(named(&format!("l{}", level + 1))));
        let members = (0..width).map(|n| member(format!("m{n}"), next.clone())).collect();
        types.structs.insert(format!("l{level}"), P4StructTypeSpec { members, ..Default::default() });
    }
    types.structs.insert(format!("l{levels}"), P4StructTypeSpec { members: last, ..Default::default() });
    types
}

#[test]
fn p_16_types_are_measured_once() {
    let f = Fixture::of(TYPES);
    let control = f.switch.control();
    let member = |name: &str, type_spec| StructMember { name: name.to_string(), type_spec };
    let refused = |more: P4TypeInfo, change: &dyn Fn(&mut P4Info)| {
        let mut given = f.pipeline.p4info().clone();
        types(&mut given).structs.extend(more.structs);
        change(&mut given);
        let begun = processor_time();
        let reasons = Pipeline::new(given, &control).err().unwrap_or_default();
        assert!(processor_time() - begun < Duration::from_secs(2), "{reasons:?}");
        reasons.join("; ")
    };
    let l0 = || spec(DataType::Struct(named("l0")));
    let stamps = |i: &mut P4Info| *register(i, "I.stamps") = l0();
    let digest = |i: &mut P4Info| i.digests[0].type_spec = l0();
    // The number of bits is known without a look at each.
    let bits = || vec![member("z", bit(1))];
    let why = refused(nested(3, 1000, bits()), &stamps);
    assert!(
        why.contains(
            "a cell of the register `I.stamps` has 1000000000 bits in the P4Info and 48 in the program"
        ),
        "{why}"
    );
    let why = refused(nested(3, 1000, bits()), &digest);
    assert!(
        why.contains("the digest `learned_t` has 1000000000 bits in the P4Info and 80 in the program"),
        "{why}"
    );
    let why = refused(nested(60, 1000, bits()), &stamps);
    assert!(why.contains("has 18446744073709551615 bits in the P4Info"), "{why}");
    // Members without bits do not change it.
    let mut none = nested(3, 1000, vec![member("z", bit(0))]);
    none.structs.get_mut("l0").unwrap().members.push(member("all", bit(48)));
    let why = refused(none, &stamps);
    let words =
        "a cell of the register `I.stamps`, the struct `l0`, has 1000000001 values, the limit is 65536";
    assert!(why.contains(words), "{why}");
    // Nor does a header count for less.
    let many = |i: &mut P4Info| {
        stamps(i);
        let field = types(i).headers["pair_t"].members[0].clone();
        let header = types(i).headers.get_mut("pair_t").unwrap();
        header.members = vec![field; 1000];
    };
    let header = spec(DataType::Header(named("pair_t")));
    let why = refused(nested(2, 1000, vec![member("h", header)]), &many);
    assert!(why.contains("has 24001000000 bits in the P4Info"), "{why}");
    // The width of a type that is not there is unknown.
    let why = refused(P4TypeInfo::default(), &|i| drop(types(i).structs.remove("inner_t")));
    assert_eq!(why, "");
    // Cycles, of structs and of `type`s.
    let inner = |i: &mut P4Info| {
        let inner = spec(DataType::Struct(named("inner_t")));
        types(i).structs.get_mut("inner_t").unwrap().members[0].type_spec = inner;
    };
    let why = refused(P4TypeInfo::default(), &inner);
    assert!(
        why.contains("the register `I.cells`, the struct `cell_t`: the struct `inner_t` contains itself"),
        "{why}"
    );
    assert!(
        why.contains("the digest `learned_t`, the struct `learned_t`: the struct `inner_t` contains itself"),
        "{why}"
    );
    let back = vec![member("z", l0())];
    let why = refused(nested(3, 2, back), &stamps);
    assert!(why.contains("the struct `l0` contains itself"), "{why}");
    let why = refused(P4TypeInfo::default(), &|i| {
        *register(i, "I.stamps") = spec(DataType::NewType(named("plain_t")));
        let itself = spec(DataType::NewType(named("plain_t")));
        types(i).new_types.get_mut("plain_t").unwrap().representation =
            itself.map(Representation::OriginalType);
    });
    assert!(why.contains("the type `plain_t` contains itself"), "{why}");
    // Nesting.
    let why = refused(nested(62, 1, vec![member("z", bit(48))]), &stamps);
    assert_eq!(why, "");
    let why = refused(nested(63, 1, vec![member("z", bit(48))]), &stamps);
    assert!(why.contains("its types are nested more than 64 deep, which is the limit"), "{why}");
    let why = refused(nested(100_000, 1, vec![member("z", bit(48))]), &stamps);
    assert!(why.contains("its types are nested more than 64 deep"), "{why}");
}
