//! Table entries: sections 5 to 8 of the requirements, one test for each number that concerns them.

use crate::common::*;
use p4jet_p4info::proto::v1::{
    self, Atomicity, CounterData, EntityKind, FieldMatch, IdleTimeout, MeterConfig, TableAction,
    TableActionType, TableEntry, UpdateType,
};
use p4jet_p4runtime::pipeline::Pipeline;

fn acl(f: &Fixture, matches: Vec<FieldMatch>, priority: i32) -> TableEntry {
    TableEntry { priority, ..f.entry("acl", matches, f.act("forward", &[1])) }
}

/// Further fields that `acl` needs: the flag, and a protocol, without which its restriction requires any TTL.
fn flag() -> Vec<FieldMatch> {
    vec![exact(5, 1)]
}

fn with(mut matches: Vec<FieldMatch>, more: Vec<FieldMatch>) -> Vec<FieldMatch> {
    matches.extend(more);
    matches
}

#[test]
fn g_1_ids_of_0_are_wrong() {
    let f = Fixture::new();
    let entry = TableEntry { table_id: 0, ..f.l2(1, 1) };
    assert_eq!(f.insert(entry), INVALID);
    let error =
        f.update(UpdateType::Insert, EntityKind::TableEntry(TableEntry { table_id: 77, ..f.l2(1, 1) }));
    assert_eq!((error.canonical_code, error.space.as_str(), error.code), (INVALID, "p4jet", 2));
    assert!(error.message.contains("no table with the id 77") && error.message.contains("`I."), "{error:?}");
    let mut entry = f.l2(1, 1);
    entry.r#match[0].field_id = 9;
    let error = f.update(UpdateType::Insert, EntityKind::TableEntry(entry));
    assert!(error.message.contains("fields: 1 (`h.ethernet.dst`)"), "{error:?}");
    let mut action = f.action("forward", &[1]);
    action.params[0].param_id = 4;
    let action = Some(TableAction { r#type: Some(TableActionType::Action(action)) });
    let error = f.update(UpdateType::Insert, EntityKind::TableEntry(TableEntry { action, ..f.l2(1, 1) }));
    assert!(error.message.contains("parameters: 1 (`port`)"), "{error:?}");
    assert!(f.all("l2").is_empty());
}

#[test]
fn g_3_reads_return_what_was_written() {
    let f = Fixture::new();
    let entries = [
        f.l2(0x1234, 5),
        f.entry("l2", vec![exact(1, 7)], f.act("send", &[5, 0xffff_ffff_ffff])),
        f.entry("routes", vec![string(1, "red"), lpm(2, 0x0a00_0000, 8)], f.act("forward", &[2])),
        f.entry("routes", vec![string(1, "red")], f.act("forward", &[3])),
        f.entry("routes", vec![string(1, "12"), lpm(2, 0x0a00_0001, 32)], f.act("NoAction", &[])),
        f.entry("lpm_only", vec![lpm(1, 0x0a00_0001, 32)], f.act("NoAction", &[])),
        acl(
            &f,
            vec![ternary(1, 0x0a00, 0xff00), optional(2, 6), ternary(3, 1, 1), range(4, 5, 6), exact(5, 0)],
            10,
        ),
        acl(&f, vec![exact(5, 0)], 11),
        TableEntry { priority: 3, ..f.entry("labels", vec![exact(2, 9)], f.act("tag", &[4])) },
    ];
    for entry in &entries {
        assert_eq!(f.insert(entry.clone()), OK, "{entry:?}");
    }
    let tables = ["l2", "routes", "lpm_only", "acl", "labels"];
    let found: Vec<TableEntry> = tables.iter().flat_map(|table| f.all(table)).collect();
    assert_eq!(found.len(), entries.len());
    for entry in &entries {
        assert!(found.contains(entry), "{entry:?} is not among {found:?}");
    }
}

#[test]
fn g_10_any_length_is_accepted_and_the_shortest_is_sent() {
    let f = Fixture::new();
    let mut entry = f.l2(0x99, 5);
    if let Some(v1::FieldMatchType::Exact(exact)) = &mut entry.r#match[0].field_match_type {
        exact.value = vec![0; 30].into_iter().chain([0x99]).collect::<Vec<u8>>().into();
    }
    assert_eq!(f.insert(entry), OK);
    assert_eq!(f.all("l2"), [f.l2(0x99, 5)]);
    assert_eq!(f.insert(f.l2(0, 0)), OK);
    assert!(f.all("l2").contains(&f.l2(0, 0)), "zero is one byte");
}

#[test]
fn g_12_empty_and_too_large_values_are_out_of_range() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1 << 48, 5)), RANGE);
    assert_eq!(f.insert(f.l2(1, 512)), RANGE);
    let mut empty = f.l2(1, 5);
    empty.r#match[0].field_match_type = Some(v1::FieldMatchType::Exact(v1::Exact::default()));
    assert_eq!(f.insert(empty), RANGE);
    let error = f.update(UpdateType::Insert, EntityKind::TableEntry(f.l2(1, 512)));
    let expected =
        "action `I.forward`, parameter `port`: the value 0x0200 is too large, expected at most 9 bits";
    assert_eq!(error.message, expected);
}

#[test]
fn w_3_an_empty_list_is_fine() {
    let f = Fixture::new();
    assert_eq!(f.write(Vec::new(), Atomicity::ContinueOnError).errors, None);
}

#[test]
fn w_4_type_and_entity_are_set() {
    let f = Fixture::new();
    assert_eq!(f.code(UpdateType::Unspecified, EntityKind::TableEntry(f.l2(1, 1))), INVALID);
    let none = v1::Update { r#type: 1, entity: None };
    let unknown = v1::Update { r#type: 9, ..update(UpdateType::Insert, EntityKind::TableEntry(f.l2(1, 1))) };
    let hollow = v1::Update { r#type: 1, entity: Some(v1::Entity::default()) };
    let errors = f.write(vec![none, unknown, hollow], Atomicity::ContinueOnError).errors.unwrap();
    assert!(errors.iter().all(|error| error.canonical_code == INVALID), "{errors:?}");
}

#[test]
fn w_5_insert_refuses_existing_entities() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.insert(f.l2(1, 2)), EXISTS);
    assert_eq!(f.all("l2"), [f.l2(1, 1)]);
}

#[test]
fn w_6_modify_needs_the_entry() {
    let f = Fixture::new();
    assert_eq!(f.modify(f.l2(1, 1)), NOT_FOUND);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.modify(f.l2(1, 2)), OK);
    assert_eq!(f.all("l2"), [f.l2(1, 2)]);
}

#[test]
fn w_7_delete_looks_at_the_key_only() {
    let f = Fixture::new();
    assert_eq!(f.delete(f.l2(1, 1)), NOT_FOUND);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    let nonsense = v1::Action { action_id: 12345, params: Vec::new() };
    let action = Some(TableAction { r#type: Some(TableActionType::Action(nonsense)) });
    let hit = Some(IdleTimeout { elapsed_ns: 3 });
    let nonsense = TableEntry { action, idle_timeout_ns: -5, time_since_last_hit: hit, ..f.l2(1, 1) };
    assert_eq!(f.delete(nonsense), OK);
    assert!(f.all("l2").is_empty());
}

#[test]
fn w_8_form_comes_before_existence() {
    let f = Fixture::new();
    // Absent, too.
    assert_eq!(f.modify(TableEntry { priority: 4, ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.modify(f.l2(1, 512)), RANGE);
}

fn l2_updates(f: &Fixture, kinds: &[(UpdateType, u64)]) -> Vec<v1::Update> {
    kinds.iter().map(|(kind, mac)| update(*kind, EntityKind::TableEntry(f.l2(*mac, 1)))).collect()
}

#[test]
fn w_11_updates_come_in_order() {
    let f = Fixture::new();
    use UpdateType::{Delete, Insert, Modify};
    let updates = l2_updates(&f, &[(Insert, 1), (Modify, 1), (Delete, 1), (Insert, 1), (Insert, 2)]);
    assert_eq!(f.write(updates, Atomicity::ContinueOnError).errors, None);
    assert_eq!(f.all("l2").len(), 2);
}

#[test]
fn w_12_the_other_updates_take_effect() {
    let f = Fixture::new();
    use UpdateType::{Delete, Insert};
    let updates = l2_updates(&f, &[(Insert, 1), (Insert, 1), (Delete, 3), (Insert, 2)]);
    let errors = f.write(updates, Atomicity::ContinueOnError).errors.unwrap();
    let codes: Vec<i32> = errors.iter().map(|e| e.canonical_code).collect();
    assert_eq!(codes, [OK, EXISTS, NOT_FOUND, OK]);
    // T-8: an error for a success has no other fields.
    assert_eq!(errors[0], v1::Error::default());
    assert_eq!(f.all("l2").len(), 2);
}

#[test]
fn w_13_rollback_leaves_nothing() {
    let f = Fixture::new();
    use UpdateType::{Delete, Insert};
    assert_eq!(f.insert(f.l2(9, 1)), OK);
    let aged = TableEntry {
        idle_timeout_ns: 5_000_000,
        ..f.entry("aged", vec![exact(1, 5)], f.act("forward", &[1]))
    };
    assert_eq!(f.insert(aged.clone()), OK);
    // The slot of an entry that is taken back has another generation, so that its handle stays unknown.
    let state = || f.switch.dump(true).replace(r#","generations":{"1":1}"#, "");
    let before = state();
    let mut updates = l2_updates(&f, &[(Insert, 1), (Delete, 9), (Insert, 9), (Delete, 3), (Insert, 2)]);
    updates.insert(0, update(Delete, EntityKind::TableEntry(aged)));
    let errors = f.write(updates.clone(), Atomicity::RollbackOnError).errors.unwrap();
    let codes: Vec<i32> = errors.iter().map(|e| e.canonical_code).collect();
    assert_eq!(codes, [ABORTED, ABORTED, ABORTED, ABORTED, NOT_FOUND, ABORTED]);
    assert!(errors[0].message.starts_with("rolled back") && errors[5].message.starts_with("not attempted"));
    assert_eq!(state(), before);
    updates.remove(4);
    assert_eq!(f.write(updates, Atomicity::RollbackOnError).errors, None);
    assert_eq!(f.all("l2").len(), 3);
}

#[test]
fn w_19_large_batches() {
    let f = Fixture::new();
    let kinds: Vec<_> = (0..50_000).map(|mac| (UpdateType::Insert, mac)).collect();
    assert_eq!(f.write(l2_updates(&f, &kinds), Atomicity::ContinueOnError).errors, None);
    // Q-6: in pieces, which `entries` checks.
    assert_eq!(f.all("l2").len(), 50_000);
}

#[test]
fn e_1_the_priority_is_part_of_the_key() {
    let f = Fixture::new();
    for priority in [10, 11] {
        assert_eq!(f.insert(acl(&f, flag(), priority)), OK);
        assert_eq!(f.insert(acl(&f, flag(), priority)), EXISTS);
    }
    assert_eq!(f.delete(acl(&f, flag(), 10)), OK);
    assert_eq!(f.delete(acl(&f, flag(), 10)), NOT_FOUND);
    assert_eq!(f.all("acl"), [acl(&f, flag(), 11)]);
}

#[test]
fn e_2_a_table_without_key_has_only_the_default_entry() {
    let f = Fixture::new();
    let entry = f.entry("keyless", Vec::new(), f.act("forward", &[3]));
    assert_eq!(f.insert(entry.clone()), INVALID);
    assert_eq!(f.modify(TableEntry { is_default_action: true, ..entry }), OK);
}

#[test]
fn e_3_a_table_has_exactly_its_size() {
    let f = Fixture::new();
    for port in 0..16 {
        assert_eq!(f.insert(f.entry("owned", vec![exact(1, port)], f.act("forward", &[1]))), OK);
    }
    assert_eq!(f.insert(f.entry("owned", vec![exact(1, 16)], f.act("forward", &[1]))), FULL);
    // Existence comes before capacity.
    assert_eq!(f.insert(f.entry("owned", vec![exact(1, 3)], f.act("forward", &[1]))), EXISTS);
    assert_eq!(f.delete(f.entry("owned", vec![exact(1, 3)], None)), OK);
    assert_eq!(f.insert(f.entry("owned", vec![exact(1, 16)], f.act("forward", &[1]))), OK);
}

#[test]
fn e_4_priorities_are_positive_or_0() {
    let f = Fixture::new();
    for wrong in [0, -1, i32::MIN] {
        assert_eq!(f.insert(acl(&f, flag(), wrong)), INVALID);
    }
    assert_eq!(f.insert(acl(&f, flag(), i32::MAX)), OK);
    for wrong in [1, -1] {
        assert_eq!(f.insert(TableEntry { priority: wrong, ..f.l2(1, 1) }), INVALID);
    }
    // The larger one wins, which for runtime commands is the smaller one.
    let table = f.switch.control().schema().table("acl").unwrap();
    assert_eq!(f.insert(acl(&f, flag(), 10)), OK);
    let control = f.switch.control();
    let found: Vec<u32> = control.switch().table(table).entries().map(|(_, e)| e.priority).collect();
    assert_eq!(found, [0, i32::MAX as u32 - 10]);
}

/// E-4 leaves it to the switch which of two entries with the same priority wins; docs/p4runtime.md states it.
#[test]
fn the_oldest_of_several_entries_with_the_same_priority_wins() {
    let mut packet = vec![0; 60];
    packet[12..14].copy_from_slice(&[0x08, 0]);
    // The protocol.
    packet[22] = 6;
    let any = vec![exact(5, 0)];
    let protocol = vec![exact(5, 0), optional(2, 6)];
    for (matches, modified) in [([any.clone(), protocol.clone()], false), ([protocol, any], true)] {
        let f = Fixture::new();
        let entry = |port| {
            let action = f.act("forward", &[port]);
            TableEntry { priority: 10, ..f.entry("acl", matches[port as usize - 1].clone(), action) }
        };
        assert_eq!((f.insert(entry(1)), f.insert(entry(2))), (OK, OK));
        if modified {
            assert_eq!(f.modify(entry(1)), OK);
        }
        let mut worker = f.worker(0);
        let sent: Vec<u32> = worker.process_one(1, &packet).sent.into_iter().map(|(port, _)| port).collect();
        assert_eq!(sent, [1]);
    }
}

#[test]
fn e_5_is_const_is_for_the_program() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { is_const: true, ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.modify(TableEntry { is_const: true, ..f.l2(1, 1) }), INVALID);
    assert!(f.all("constant").iter().all(|entry| entry.is_const));
    assert!(f.all("l2").iter().all(|entry| !entry.is_const));
}

#[test]
fn e_7_an_action_has_a_kind() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { action: Some(TableAction::default()), ..f.l2(1, 1) }), INVALID);
}

#[test]
fn e_10_matches_are_of_the_right_kind_and_once() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { r#match: vec![lpm(1, 1, 48)], ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(TableEntry { r#match: vec![exact(1, 1), exact(1, 1)], ..f.l2(1, 1) }), INVALID);
    let unset = FieldMatch { field_id: 1, field_match_type: None };
    assert_eq!(f.insert(TableEntry { r#match: vec![unset], ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(TableEntry { r#match: vec![exact(1, 1), exact(2, 1)], ..f.l2(1, 1) }), INVALID);
    let other =
        FieldMatch { field_id: 1, field_match_type: Some(v1::FieldMatchType::Other(Default::default())) };
    assert_eq!(f.insert(TableEntry { r#match: vec![other], ..f.l2(1, 1) }), INVALID);
}

#[test]
fn e_11_exact_fields_are_there() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { r#match: Vec::new(), ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(acl(&f, vec![ternary(1, 1, 1)], 10)), INVALID);
}

#[test]
fn e_12_dont_care_fields_are_left_out() {
    let f = Fixture::new();
    for wrong in [ternary(1, 0, 0), range(4, 0, 0xffff)] {
        assert_eq!(f.insert(acl(&f, with(flag(), vec![wrong]), 10)), INVALID);
    }
    assert_eq!(f.insert(f.entry("lpm_only", vec![lpm(1, 0, 0)], f.act("NoAction", &[]))), INVALID);
    assert_eq!(f.insert(acl(&f, flag(), 10)), OK);
    // G-3: answers leave them out.
    assert_eq!(f.all("acl")[0].r#match, flag());
}

#[test]
fn e_13_prefixes() {
    let f = Fixture::new();
    let route = |value, len| f.entry("lpm_only", vec![lpm(1, value, len)], f.act("forward", &[1]));
    assert_eq!(f.insert(route(0x0a00_0000, 8)), OK);
    for (value, len) in [(0x0a00_0001, 8), (0x0a00_0000, -1), (0x0a00_0000, 33), (1, 31)] {
        assert_eq!(f.insert(route(value, len)), INVALID, "{value:x}/{len}");
    }
    let error = f.update(UpdateType::Insert, EntityKind::TableEntry(route(0x0a00_0001, 8)));
    let why = "the value 0xa000001 has bits set behind the prefix, which has 8 of 32 bits";
    assert!(error.message.ends_with(why), "{error:?}");
    assert_eq!(f.insert(route(0x0a00_0001, 32)), OK);
}

#[test]
fn e_14_ternary_values_lie_within_the_mask() {
    let f = Fixture::new();
    assert_eq!(f.insert(acl(&f, with(flag(), vec![ternary(1, 3, 1)]), 10)), INVALID);
    let error = f.update(
        UpdateType::Insert,
        EntityKind::TableEntry(acl(&f, with(flag(), vec![ternary(1, 3, 1)]), 10)),
    );
    assert!(error.message.ends_with("the value 0x3 has bits set outside the mask 0x1"), "{error:?}");
    assert_eq!(f.insert(acl(&f, with(flag(), vec![ternary(1, 1, 0xffff_ffff)]), 10)), OK);
    assert_eq!(f.insert(acl(&f, with(flag(), vec![ternary(1, 1, 1 << 32)]), 10)), RANGE);
}

#[test]
fn e_15_ranges_are_not_empty() {
    let f = Fixture::new();
    assert_eq!(f.insert(acl(&f, with(flag(), vec![range(4, 6, 5)]), 10)), INVALID);
    let error =
        f.update(UpdateType::Insert, EntityKind::TableEntry(acl(&f, with(flag(), vec![range(4, 6, 5)]), 10)));
    assert!(error.message.ends_with("the low end 0x6 is above the high end 0x5"), "{error:?}");
    assert_eq!(f.insert(acl(&f, with(flag(), vec![range(4, 5, 5)]), 10)), OK);
}

#[test]
fn e_17_selector_fields_are_not_given() {
    let f = Fixture::new();
    let spread = f.pipeline.p4info().tables.iter().find(|t| t.preamble.as_ref().unwrap().alias == "spread");
    assert_eq!(spread.unwrap().match_fields.len(), 1);
    let action =
        Some(TableAction { r#type: Some(TableActionType::ActionProfileActionSet(Default::default())) });
    for second in [2, 3] {
        let entry = f.entry("spread", vec![exact(1, 1), exact(second, 1)], action.clone());
        assert_eq!(f.insert(entry), INVALID);
    }
    assert_eq!(f.insert(f.entry("spread", vec![exact(1, 1)], action)), OK);
}

#[test]
fn e_20_an_insertion_has_an_action_and_a_modification_need_not() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { action: None, ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.modify(TableEntry { action: None, ..f.l2(1, 1) }), OK);
    assert_eq!(f.all("l2"), [f.l2(1, 1)]);
}

#[test]
fn e_21_the_kind_of_action_fits_the_table() {
    let f = Fixture::new();
    let of = |kind| Some(TableAction { r#type: Some(kind) });
    for wrong in [
        TableActionType::ActionProfileMemberId(1),
        TableActionType::ActionProfileGroupId(1),
        TableActionType::ActionProfileActionSet(Default::default()),
    ] {
        assert_eq!(f.insert(TableEntry { action: of(wrong), ..f.l2(1, 1) }), INVALID);
    }
    assert_eq!(f.insert(f.entry("spread", vec![exact(1, 1)], f.act("forward", &[1]))), INVALID);
    let group = of(TableActionType::ActionProfileGroupId(1));
    assert_eq!(f.insert(f.entry("indirect", vec![exact(1, 1)], group)), INVALID);
    // E-24.
    for (id, code) in [(0, INVALID), (7, NOT_FOUND)] {
        let member = of(TableActionType::ActionProfileMemberId(id));
        assert_eq!(f.insert(f.entry("spread", vec![exact(1, 1)], member)), code);
        let group = of(TableActionType::ActionProfileGroupId(id));
        assert_eq!(f.insert(f.entry("spread", vec![exact(1, 1)], group)), code);
    }
}

#[test]
fn e_22_actions_are_those_of_the_table() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.entry("l2", vec![exact(1, 1)], f.act("tag", &[1]))), INVALID);
    assert_eq!(f.insert(f.entry("l2", vec![exact(1, 1)], f.act("drop_it", &[]))), DENIED);
    assert_eq!(f.insert(f.entry("l2", vec![exact(1, 1)], f.act("classify", &[1]))), OK);
    let default =
        TableEntry { is_default_action: true, ..f.entry("l2", Vec::new(), f.act("classify", &[1])) };
    assert_eq!(f.modify(default), DENIED);
}

#[test]
fn e_23_each_parameter_is_given_once() {
    let f = Fixture::new();
    let with_params = |params: Vec<(u32, u64)>| {
        let params = params.into_iter().map(|(param_id, v)| v1::ActionParam { param_id, value: bytes(v) });
        let action = v1::Action { action_id: f.action_id("send"), params: params.collect() };
        let action = Some(TableAction { r#type: Some(TableActionType::Action(action)) });
        f.entry("l2", vec![exact(1, 1)], action)
    };
    for wrong in
        [vec![], vec![(1, 1)], vec![(1, 1), (1, 1)], vec![(1, 1), (2, 2), (2, 2)], vec![(1, 1), (3, 2)]]
    {
        assert_eq!(f.insert(with_params(wrong.clone())), INVALID, "{wrong:?}");
    }
    // In any order.
    assert_eq!(f.insert(with_params(vec![(2, 7), (1, 3)])), OK);
    assert_eq!(f.all("l2"), [with_params(vec![(1, 3), (2, 7)])]);
}

#[test]
fn e_30_the_default_entry_has_no_key_and_always_exists() {
    let f = Fixture::new();
    let default = TableEntry { is_default_action: true, ..f.entry("l2", Vec::new(), f.act("forward", &[4])) };
    assert_eq!(f.insert(default.clone()), INVALID);
    assert_eq!(f.delete(default.clone()), INVALID);
    assert_eq!(f.modify(TableEntry { r#match: vec![exact(1, 1)], ..default.clone() }), INVALID);
    assert_eq!(f.modify(TableEntry { priority: 1, ..default.clone() }), INVALID);
    assert_eq!(f.modify(TableEntry { idle_timeout_ns: 1, ..default.clone() }), INVALID);
    let hit = Some(IdleTimeout::default());
    assert_eq!(f.modify(TableEntry { time_since_last_hit: hit, ..default.clone() }), INVALID);
    // E-31, E-35.
    assert_eq!(f.modify(default.clone()), OK);
    let pattern = TableEntry { table_id: default.table_id, is_default_action: true, ..Default::default() };
    assert_eq!(f.entries(pattern.clone())[0], default);
    // E-36.
    assert!(f.all("l2").is_empty());
    // E-32.
    assert_eq!(f.modify(TableEntry { action: None, ..default }), OK);
    let reset = f.entries(pattern);
    assert_eq!(reset[0].action, f.act("drop_it", &[]));
}

#[test]
fn e_33_a_const_default_stays() {
    let f = Fixture::new();
    let default =
        TableEntry { is_default_action: true, ..f.entry("routes", Vec::new(), f.act("NoAction", &[])) };
    assert_eq!(f.modify(default.clone()), DENIED);
    assert_eq!(f.modify(TableEntry { action: None, ..default.clone() }), DENIED);
    assert_eq!(f.entries(TableEntry { action: None, ..default.clone() }), [default]);
}

#[test]
fn e_34_the_default_of_an_indirect_table_is_const() {
    let f = Fixture::new();
    let member = Some(TableAction { r#type: Some(TableActionType::ActionProfileMemberId(1)) });
    let default = TableEntry { is_default_action: true, ..f.entry("spread", Vec::new(), member) };
    assert_eq!(f.modify(default.clone()), DENIED);
    let shown = f.entries(TableEntry { action: None, ..default });
    assert_eq!(shown[0].action, f.act("NoAction", &[]));
}

#[test]
fn e_37_the_default_entry_takes_no_room() {
    let f = Fixture::new();
    let default =
        TableEntry { is_default_action: true, ..f.entry("owned", Vec::new(), f.act("forward", &[4])) };
    assert_eq!(f.modify(default), OK);
    e_3_a_table_has_exactly_its_size();
}

#[test]
fn e_40_const_entries_stay() {
    let f = Fixture::new();
    let of = |matches, priority, action| TableEntry { priority, ..f.entry("constant", matches, action) };
    assert_eq!(f.insert(of(vec![ternary(1, 1, 1)], 7, f.act("classify", &[9]))), DENIED);
    let first = of(vec![ternary(1, 6, 0x0f)], 3, f.act("classify", &[1]));
    assert_eq!(f.modify(first.clone()), DENIED);
    assert_eq!(f.delete(first.clone()), DENIED);
    assert_eq!(f.modify(TableEntry { action: None, ..first.clone() }), OK);
    assert_eq!(f.delete(TableEntry { priority: 2, ..first }), NOT_FOUND);
    // E-41.
    let default = TableEntry { is_default_action: true, ..of(Vec::new(), 0, f.act("classify", &[4])) };
    assert_eq!(f.modify(default), OK);
}

#[test]
fn e_43_entries_of_the_program_have_priorities_from_the_last() {
    let f = Fixture::new();
    let found: Vec<(i32, Vec<FieldMatch>)> =
        f.all("constant").into_iter().map(|e| (e.priority, e.r#match)).collect();
    assert_eq!(found, [(3, vec![ternary(1, 6, 0x0f)]), (2, vec![ternary(1, 17, 0xff)]), (1, vec![])]);
}

#[test]
fn e_44_entries_that_are_not_const_change() {
    let f = Fixture::new();
    let of = |port: u64, class: u64| f.entry("started", vec![exact(1, port)], f.act("classify", &[class]));
    assert_eq!(f.all("started"), [TableEntry { is_const: true, ..of(1, 1) }, of(2, 2)]);
    assert_eq!(f.modify(of(1, 5)), DENIED);
    assert_eq!(f.delete(of(1, 1)), DENIED);
    assert_eq!(f.insert(of(1, 1)), EXISTS);
    assert_eq!(f.modify(of(2, 5)), OK);
    assert_eq!(f.delete(of(2, 5)), OK);
    for port in 3..6 {
        assert_eq!(f.insert(of(port, 1)), OK);
    }
    assert_eq!(f.insert(of(6, 1)), FULL);
}

/// MODIFY and DELETE act on the entry that packets meet, also if a command has added one with the key and priority of another.
#[test]
fn e_44_a_key_means_the_entry_that_packets_meet() {
    use p4jet_control::{Act, Update};
    for wins in ["true", "false"] {
        let of = |entries: &str| {
            let properties = format!("largest_priority_wins = {wins}; entries = {{ {entries} }}");
            PROGRAM.replace("table l2 {", &format!("table own {{ key = {{ h.ethernet.src: ternary; }} actions = {{ forward; }} {properties} }} table l2 {{"))
                .replacen("acl.apply();", "own.apply(); acl.apply();", 1)
        };
        let f = Fixture::of(&of("priority=20: 0x77: forward(1); priority=30: 0x88: forward(2);"));
        let entry = |port| {
            let key = vec![ternary(1, 0x77, 0xffff_ffff_ffff)];
            TableEntry { priority: 20, ..f.entry("own", key, f.act("forward", &[port])) }
        };
        let control = f.switch.control();
        let table = control.schema().table("I.own").unwrap();
        let (declared, key) = {
            let declared = &control.program().tables[table.index()].entries;
            let declared = declared.iter().find(|entry| entry.shown_priority == 20).unwrap();
            (declared.action.clone(), declared.key.clone())
        };
        let action = p4jet_tables::Action { action: declared.action, data: vec![5u32.into()] };
        let priority = i32::MAX as u32 - 20;
        let insert = Update::Insert { table, key, priority, act: Act::Action(action) };
        assert!(f.switch.write(vec![insert], p4jet_control::Atomicity::AllOrNothing).0.in_effect);
        let ports = || {
            let mut found: Vec<_> = f.all("own").into_iter().map(|e| (e.priority, e.action)).collect();
            found.retain(|(priority, _)| *priority == 20);
            found.into_iter().map(|(_, action)| action).collect::<Vec<_>>()
        };
        let acts = |all: &[u64]| all.iter().map(|port| f.act("forward", &[*port])).collect::<Vec<_>>();
        assert_eq!(ports(), acts(&[1, 5]));
        assert_eq!(f.insert(entry(3)), EXISTS);
        assert_eq!((f.modify(entry(4)), ports()), (OK, acts(&[4, 5])));
        assert_eq!((f.delete(entry(4)), ports()), (OK, acts(&[5])));
        assert_eq!((f.modify(entry(6)), ports()), (OK, acts(&[6])));
        assert_eq!((f.delete(entry(6)), f.delete(entry(6))), (OK, NOT_FOUND));
    }
}

fn aged(f: &Fixture, mac: u64) -> TableEntry {
    f.entry("aged", vec![exact(1, mac)], f.act("measured", &[1]))
}

fn count(packets: i64, bytes: i64) -> Option<CounterData> {
    Some(CounterData { packet_count: packets, byte_count: bytes })
}

const CONFIG: MeterConfig = MeterConfig { cir: 1_234_567, cburst: 11, pir: 7_654_321, pburst: 12, eburst: 0 };

#[test]
fn e_50_counters_of_entries() {
    let f = Fixture::new();
    let shown = |f: &Fixture| {
        let pattern =
            TableEntry { counter_data: Some(CounterData::default()), ..f.entry("aged", vec![], None) };
        f.entries(pattern)[0].counter_data.clone()
    };
    assert_eq!(f.insert(aged(&f, 1)), OK);
    assert_eq!(shown(&f), count(0, 0));
    assert_eq!(f.modify(TableEntry { counter_data: count(3, 4), ..aged(&f, 1) }), OK);
    assert_eq!(shown(&f), count(3, 4));
    assert_eq!(f.modify(TableEntry { action: f.act("forward", &[2]), ..aged(&f, 1) }), OK);
    assert_eq!(shown(&f), count(3, 4), "another action, the same counter");
    assert_eq!(f.all("aged")[0].counter_data, None);
    // E-56.
    assert_eq!(f.delete(aged(&f, 1)), OK);
    assert_eq!(f.insert(aged(&f, 1)), OK);
    assert_eq!(shown(&f), count(0, 0));
    assert_eq!(f.insert(TableEntry { counter_data: count(7, 8), ..aged(&f, 2) }), OK);
    assert_eq!(f.insert(TableEntry { counter_data: count(-1, 8), ..aged(&f, 3) }), INVALID);
    assert_eq!(f.all("aged").len(), 2, "an update that fails leaves nothing");
}

#[test]
fn e_51_meters_of_entries() {
    let f = Fixture::new();
    let shown = |f: &Fixture| {
        let pattern =
            TableEntry { meter_config: Some(MeterConfig::default()), ..f.entry("aged", vec![], None) };
        f.entries(pattern)[0].meter_config.clone()
    };
    assert_eq!(f.insert(TableEntry { meter_config: Some(CONFIG), ..aged(&f, 1) }), OK);
    assert_eq!(shown(&f), Some(CONFIG));
    assert_eq!(f.all("aged")[0].meter_config, None);
    assert_eq!(f.modify(aged(&f, 1)), OK);
    assert_eq!(shown(&f), None);
    let wrong = MeterConfig { cir: 9, pir: 8, ..MeterConfig::default() };
    assert_eq!(f.modify(TableEntry { meter_config: Some(wrong), ..aged(&f, 1) }), INVALID);
    assert_eq!(
        f.modify(TableEntry { meter_config: Some(MeterConfig { cburst: -1, ..CONFIG }), ..aged(&f, 1) }),
        INVALID
    );
}

#[test]
fn e_53_only_tables_with_direct_resources_have_them() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { counter_data: count(0, 0), ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(TableEntry { meter_config: Some(CONFIG), ..f.l2(1, 1) }), INVALID);
    assert_eq!(f.insert(TableEntry { meter_counter_data: Some(Default::default()), ..f.l2(1, 1) }), INVALID);
    // E-52.
    let counted = |packet_count| {
        let green = Some(CounterData { packet_count, byte_count: 0 });
        Some(v1::MeterCounterData { green, ..Default::default() })
    };
    assert_eq!(f.insert(TableEntry { meter_counter_data: counted(1), ..aged(&f, 1) }), INVALID);
    assert_eq!(f.insert(TableEntry { meter_counter_data: counted(0), ..aged(&f, 1) }), OK);
}

#[test]
fn e_60_idle_times_need_a_table_that_supports_them() {
    let f = Fixture::new();
    let error =
        f.update(UpdateType::Insert, EntityKind::TableEntry(TableEntry { idle_timeout_ns: 1, ..f.l2(1, 1) }));
    assert_eq!(error.canonical_code, INVALID);
    let words = "idle_timeout_ns must be set to 0 for tables which do not support idle timeout";
    assert_eq!(error.message, words);
    let asked = Some(IdleTimeout::default());
    let pattern = TableEntry { time_since_last_hit: asked.clone(), ..f.entry("l2", vec![], None) };
    assert_eq!(f.read_code(EntityKind::TableEntry(pattern)), INVALID);
    // Z-7, E-65: all tables.
    assert_eq!(f.insert(aged(&f, 1)), OK);
    let pattern = TableEntry { time_since_last_hit: asked, ..TableEntry::default() };
    let with_time = f.entries(pattern).into_iter().filter(|e| e.time_since_last_hit.is_some());
    assert_eq!(with_time.count(), 1);
}

#[test]
fn e_61_the_time_since_the_last_hit_is_not_written() {
    let f = Fixture::new();
    let entry = TableEntry { time_since_last_hit: Some(IdleTimeout::default()), ..aged(&f, 1) };
    for kind in [UpdateType::Insert, UpdateType::Modify] {
        let error = f.update(kind, EntityKind::TableEntry(entry.clone()));
        assert_eq!(error.canonical_code, INVALID);
        assert!(error.message.contains("has_time_since_last_hit must not be set in WriteRequest"));
    }
}

#[test]
fn e_62_idle_times_are_read_as_written() {
    let f = Fixture::new();
    for (mac, ns) in [(1, 5_000_000), (2, 3_000_000_000)] {
        let entry = TableEntry { idle_timeout_ns: ns, ..aged(&f, mac) };
        assert_eq!(f.insert(entry.clone()), OK);
        assert!(f.all("aged").contains(&entry));
    }
    assert_eq!(f.insert(TableEntry { idle_timeout_ns: -1, ..aged(&f, 9) }), INVALID);
    // E-64.
    assert_eq!(f.modify(TableEntry { idle_timeout_ns: 0, ..aged(&f, 1) }), OK);
    assert!(f.all("aged").contains(&aged(&f, 1)));
}

#[test]
fn e_63_the_age_is_shown_on_request() {
    let f = Fixture::new();
    assert_eq!(f.insert(aged(&f, 1)), OK);
    std::thread::sleep(std::time::Duration::from_millis(60));
    let pattern =
        TableEntry { time_since_last_hit: Some(IdleTimeout::default()), ..f.entry("aged", vec![], None) };
    let age = f.entries(pattern.clone())[0].time_since_last_hit.clone().unwrap().elapsed_ns;
    assert!((50_000_000..60_000_000_000).contains(&age), "{age}");
    assert_eq!(f.all("aged")[0].time_since_last_hit, None);
    assert_eq!(f.modify(aged(&f, 1)), OK);
    let again = f.entries(pattern)[0].time_since_last_hit.clone().unwrap().elapsed_ns;
    assert!(again < age, "a modification restarts the age: {again} after {age}");
}

#[test]
fn e_70_all_tables() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    let all = f.entries(TableEntry::default());
    assert_eq!(all.len(), 1 + 3 + 2, "the const ones, too");
    assert_eq!(f.entries(TableEntry { is_default_action: true, ..Default::default() }).len(), 13);
    for wrong in [
        TableEntry { priority: 1, ..Default::default() },
        TableEntry { r#match: vec![exact(1, 1)], ..Default::default() },
        TableEntry { action: f.act("NoAction", &[]), ..Default::default() },
    ] {
        assert_eq!(f.read_code(EntityKind::TableEntry(wrong)), INVALID);
    }
    // E-75.
    assert_eq!(
        f.read_code(EntityKind::TableEntry(TableEntry { table_id: 5, ..Default::default() })),
        INVALID
    );
}

#[test]
fn e_71_one_entry_by_its_key() {
    let f = Fixture::new();
    for entry in [f.l2(1, 1), f.l2(2, 2), acl(&f, flag(), 10), acl(&f, flag(), 11)] {
        assert_eq!(f.insert(entry), OK);
    }
    let pattern = |entry: TableEntry| TableEntry { action: None, ..entry };
    assert_eq!(f.entries(pattern(f.l2(2, 2))), [f.l2(2, 2)]);
    // Q-8: absent is no error.
    assert!(f.entries(pattern(f.l2(3, 2))).is_empty());
    assert_eq!(f.entries(pattern(acl(&f, flag(), 11))), [acl(&f, flag(), 11)]);
    assert_eq!(f.entries(pattern(acl(&f, flag(), 0))).len(), 2);
    assert_eq!(f.read_code(EntityKind::TableEntry(f.entry("l2", vec![lpm(1, 1, 1)], None))), INVALID);
}

#[test]
fn e_72_entries_with_an_action() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.insert(f.entry("l2", vec![exact(1, 2)], f.act("send", &[1, 1]))), OK);
    let with_action = |name| f.entries(f.entry("l2", vec![], f.act(name, &[]))).len();
    assert_eq!((with_action("send"), with_action("forward"), with_action("NoAction")), (1, 1, 0));
}

#[test]
fn e_73_entries_with_a_priority() {
    let f = Fixture::new();
    for priority in [10, 11] {
        assert_eq!(f.insert(acl(&f, flag(), priority)), OK);
        assert_eq!(f.insert(acl(&f, with(flag(), vec![ternary(1, 1, 1)]), priority)), OK);
    }
    let found = f.entries(TableEntry { priority: 11, ..f.entry("acl", vec![], None) });
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|entry| entry.priority == 11));
}

#[test]
fn q_2_and_q_4_a_wrong_pattern_hides_no_other() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    let wanted = [
        v1::Entity { entity: Some(EntityKind::TableEntry(TableEntry { table_id: 5, ..Default::default() })) },
        v1::Entity { entity: Some(EntityKind::TableEntry(f.entry("l2", vec![], None))) },
        v1::Entity::default(),
    ];
    let mut found = 0;
    let read = p4jet_p4runtime::read::read(&f.pipeline, &f.switch, &f.role, &wanted, &mut |page| {
        found += page.len();
        true
    });
    let codes: Vec<i32> = read.unwrap_err().iter().map(|error| error.canonical_code).collect();
    assert_eq!((found, codes), (1, vec![INVALID, OK, INVALID]));
}

#[test]
fn r_6_and_r_9_a_role_touches_its_own() {
    let mut f = Fixture::new();
    let owned = f.entry("owned", vec![exact(1, 1)], f.act("forward", &[1]));
    f.role.name = "operator".to_string();
    assert_eq!(f.insert(owned.clone()), OK);
    assert_eq!(f.insert(f.l2(1, 1)), DENIED);
    // R-7.
    assert_eq!(f.entries(TableEntry::default())[0], owned);
    f.role.name = "other".to_string();
    assert_eq!(f.modify(owned.clone()), DENIED);
    assert!(f.entries(TableEntry::default()).is_empty());
    f.role.name.clear();
    assert_eq!(f.modify(owned), OK);
}

#[test]
fn cn_1_constraints_of_tables_and_actions() {
    let f = Fixture::new();
    let check = |entry: TableEntry| f.update(UpdateType::Insert, EntityKind::TableEntry(entry));
    let low = check(acl(&f, flag(), 9));
    assert_eq!(low.canonical_code, INVALID);
    assert!(low.message.contains("::priority > 9") && low.message.contains("priority is 9"), "{low:?}");
    let ttl = check(acl(&f, with(flag(), vec![ternary(3, 1, 1)]), 10));
    assert!(
        ttl.message.contains("ttl::mask == 0 || protocol == 6") && ttl.message.contains("0x1 &&& 0x1"),
        "{ttl:?}"
    );
    assert_eq!(f.insert(acl(&f, with(flag(), vec![ternary(3, 1, 1), optional(2, 6)]), 10)), OK);
    let classify = |class| TableEntry { action: f.act("classify", &[class]), ..acl(&f, flag(), 20) };
    for wrong in [0, 200, 254] {
        assert_eq!(f.insert(classify(wrong)), INVALID, "{wrong}");
    }
    assert_eq!(f.insert(classify(199)), OK);
    assert_eq!(f.modify(classify(255)), OK);
    assert_eq!(f.modify(classify(0)), INVALID);
    // DELETE uses only the key.
    assert_eq!(f.delete(classify(0)), OK);
}

#[test]
fn cn_6_wrong_constraints_are_refused_with_the_pipeline() {
    let f = Fixture::new();
    let mut p4info = f.pipeline.p4info().clone();
    let acl = p4info.tables.iter_mut().find(|t| t.preamble.as_ref().unwrap().name == "I.acl").unwrap();
    acl.preamble.as_mut().unwrap().annotations = vec![r#"@entry_restriction("nothing == 1")"#.to_string()];
    let control = f.switch.control();
    let reasons = p4jet_p4runtime::pipeline::Pipeline::new(p4info, &control).err().unwrap();
    assert!(
        reasons[0].contains("@entry_restriction of `I.acl`") && reasons[0].contains("nothing"),
        "{reasons:?}"
    );
}

#[test]
fn p_15_and_p_16_the_p4info_fits_the_program() {
    let f = Fixture::new();
    let control = f.switch.control();
    let reasons = |change: &dyn Fn(&mut p4jet_p4info::proto::config::P4Info)| {
        let mut p4info = f.pipeline.p4info().clone();
        change(&mut p4info);
        p4jet_p4runtime::pipeline::Pipeline::new(p4info, &control).err().unwrap_or_default().join("; ")
    };
    assert_eq!(reasons(&|_| ()), "");
    // A subset is fine, and ids are the client's.
    let truncated = |p: &mut p4jet_p4info::proto::config::P4Info| {
        p.tables.truncate(3);
        p.action_profiles.clear();
    };
    assert_eq!(reasons(&truncated), "");
    assert_eq!(reasons(&|p| p.tables[0].preamble.as_mut().unwrap().id = 0x0200_7777), "");
    let wrong = reasons(&|p| p.tables[0].preamble.as_mut().unwrap().id = 0x0300_7777);
    assert!(wrong.contains("is wrong: ids of this kind are 0x02000001 to 0x02ffffff"), "{wrong}");
    let twice = reasons(&|p| p.tables[0].preamble = p.tables[1].preamble.clone());
    assert!(twice.contains("have the same id") && twice.contains("two tables have the name"), "{twice}");
    let unknown = reasons(&|p| p.tables[0].preamble.as_mut().unwrap().name = "I.none".to_string());
    assert!(unknown.contains("the program has no table `I.none`"), "{unknown}");
    let width = reasons(&|p| p.tables[0].match_fields[0].bitwidth = 47);
    assert!(width.contains("has 47 bits in the P4Info and 48 in the program"), "{width}");
    let size = reasons(&|p| p.tables[0].size = 3);
    assert!(size.contains("has 3 entries in the P4Info"), "{size}");
    let cells = reasons(&|p| p.counters[0].size = 3);
    assert!(cells.contains("has 3 cells in the P4Info"), "{cells}");
}

#[test]
fn tr_3_and_tr_4_translated_values() {
    let f = Fixture::new();
    let label =
        |m: Vec<FieldMatch>, to: u64| TableEntry { priority: 1, ..f.entry("labels", m, f.act("tag", &[to])) };
    // 32 bits outside, 12 inside.
    assert_eq!(f.insert(label(vec![exact(2, 1)], 0xfff)), OK);
    assert_eq!(f.insert(label(vec![exact(2, 2)], 0x1000)), INVALID);
    assert_eq!(f.insert(label(vec![exact(2, 2)], 1 << 32)), RANGE);
    // TR-6.
    assert_eq!(f.insert(label(vec![exact(2, 2), ternary(1, 1, 1)], 1)), INVALID);
    let whole = label(vec![ternary(1, 5, 0xffff_ffff), exact(2, 2)], 1);
    assert_eq!(f.insert(whole.clone()), OK);
    assert!(f.all("labels").contains(&whole));
    // Strings get numbers on first use, and strings of digits are numbers.
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    for vrf in ["red", "blue", "", "7"] {
        assert_eq!(f.insert(route(vrf)), OK, "{vrf}");
        assert_eq!(f.insert(route(vrf)), EXISTS, "{vrf}");
        assert!(f.all("routes").contains(&route(vrf)), "{vrf}");
    }
    assert_eq!(f.insert(route("1023")), INVALID, "the number of `red`");
    assert_eq!(f.insert(route("0")), INVALID, "the number of the empty string");
    let mut bad = route("x");
    bad.r#match[0].field_match_type =
        Some(v1::FieldMatchType::Exact(v1::Exact { value: vec![0xff, 0xfe].into() }));
    assert_eq!(f.insert(bad), INVALID);
}

/// A string of digits has its number alone, whichever of two strings comes first.
#[test]
fn tr_4_no_two_strings_have_one_number() {
    let f = Fixture::new();
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    for vrf in ["1023", "1021", "5", "red"] {
        assert_eq!(f.insert(route(vrf)), OK, "{vrf}");
    }
    assert_eq!((f.delete(route("never seen")), f.modify(route("nor this"))), (NOT_FOUND, NOT_FOUND));
    assert_eq!(f.insert(route("blue")), OK);
    for vrf in ["1023", "1021", "5", "red", "blue"] {
        assert_eq!(f.insert(route(vrf)), EXISTS, "{vrf}");
        assert!(f.all("routes").contains(&route(vrf)), "{vrf}");
    }
    for number in ["1022", "1020"] {
        assert_eq!(f.insert(route(number)), INVALID, "{number} is the number of `red` or `blue`");
    }
}

/// A refused update gives its numbers back, so that later strings have the numbers that they would have without it.
#[test]
fn tr_4_a_refused_update_assigns_no_number() {
    use UpdateType::{Delete, Insert, Modify};
    let f = Fixture::new();
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    let of = |kind, vrf: &str| update(kind, EntityKind::TableEntry(route(vrf)));
    // Neither do reads.
    assert!(f.entries(TableEntry { action: None, ..route("read") }).is_empty());
    assert_eq!((f.modify(route("modified")), f.delete(route("deleted"))), (NOT_FOUND, NOT_FOUND));
    assert_eq!(f.insert(TableEntry { priority: 3, ..route("wrong") }), INVALID);
    let batch = vec![of(Insert, "a"), of(Insert, "b"), of(Delete, "c")];
    let errors = f.write(batch.clone(), Atomicity::RollbackOnError).errors.unwrap();
    assert_eq!(errors[2].canonical_code, NOT_FOUND);
    // The first one that is used has the highest number, and the refused one between two others none.
    let batch = vec![of(Insert, "first"), of(Modify, "x"), of(Insert, "second")];
    assert!(f.write(batch, Atomicity::ContinueOnError).errors.is_some());
    assert_eq!(f.insert(route("1023")), INVALID, "the number of `first`");
    assert_eq!(f.insert(route("1022")), INVALID, "the number of `second`");
    assert_eq!(f.insert(route("1021")), OK);
    // A state file has those of the others only.
    let dump = f.switch.dump(false);
    for number in [1023, 1022] {
        assert!(dump.contains(&format!("p4runtime text {number}")), "{dump}");
    }
    assert_eq!(dump.matches("p4runtime text").count(), 2, "{dump}");
}

/// All numbers but 0 can be given to strings. When they are taken, strings that nothing uses lose theirs.
#[test]
fn tr_4_the_whole_space_of_numbers_is_usable() {
    use UpdateType::{Delete, Insert};
    let f = Fixture::new();
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    let of = |kind, vrf: &str| update(kind, EntityKind::TableEntry(route(vrf)));
    let name = |n: u32| format!("vrf-{n}");
    let all = (0..1023).map(|n| of(Insert, &name(n))).collect();
    assert_eq!(f.write(all, Atomicity::RollbackOnError).errors, None);
    // Numbers of strings that are not there are not needed.
    for unknown in ["unknown", "007"] {
        assert_eq!((f.delete(route(unknown)), f.modify(route(unknown))), (NOT_FOUND, NOT_FOUND));
        assert!(f.entries(TableEntry { action: None, ..route(unknown) }).is_empty());
        assert_eq!(f.insert(route(unknown)), FULL);
    }
    // W-8: the form comes first.
    assert_eq!(f.modify(TableEntry { action: f.act("classify", &[1]), ..route("unknown") }), INVALID);
    let mut wrong = route("unknown");
    wrong.r#match.push(exact(9, 1));
    assert_eq!(f.delete(wrong), INVALID);
    assert_eq!(f.delete(route("vrf-500")), OK);
    // A Write that is undone leaves all strings as they were.
    let batch = vec![of(Delete, "vrf-7"), of(Insert, "new"), of(Insert, "newer"), of(Insert, "newest")];
    let errors = f.write(batch, Atomicity::RollbackOnError).errors.unwrap();
    let codes: Vec<_> = errors.iter().map(|error| error.canonical_code).collect();
    assert_eq!(codes, [ABORTED, ABORTED, ABORTED, FULL], "{errors:?}");
    let vrfs = |f: &Fixture| {
        let mut all: Vec<String> =
            f.all("routes").iter().map(|entry| format!("{:?}", entry.r#match)).collect();
        all.sort_unstable();
        all
    };
    let left = vrfs(&f);
    assert_eq!(left.len(), 1022);
    assert!(left.iter().any(|vrf| vrf.contains("\"vrf-7\"")), "{left:?}");
    // Two others take the numbers of two that have gone; then, all are taken again.
    let batch = ["vrf-7", "vrf-8"].map(|vrf| of(Delete, vrf)).into_iter();
    let batch = batch.chain(["a", "b", "c", "d"].map(|vrf| of(Insert, vrf))).collect();
    let errors = f.write(batch, Atomicity::ContinueOnError).errors.unwrap();
    let codes: Vec<_> = errors.iter().map(|error| error.canonical_code).collect();
    assert_eq!(codes, [OK, OK, OK, OK, OK, FULL], "{errors:?}");
    let now = vrfs(&f);
    assert_eq!(now.len(), 1023);
    assert_eq!(now.iter().filter(|vrf| left.contains(vrf)).count(), 1020);
    // A switch that continues from the state file has the same strings.
    let dump = f.switch.dump(false);
    assert_eq!(dump.matches("p4runtime text").count(), 1023);
    let again = Fixture::new();
    assert_eq!(again.switch.restore(&dump), Ok(None));
    let pipeline =
        Pipeline::new(p4info(PROGRAM), &again.switch.control()).unwrap_or_else(|_| panic!("it fits"));
    assert_eq!(vrfs(&Fixture { pipeline, ..again }), now);
}

/// After a dump is restored, strings have the numbers of the dump, also those that had others before.
#[test]
fn tr_4_a_restored_dump_brings_its_strings() {
    let f = Fixture::new();
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    for vrf in ["red", "blue"] {
        assert_eq!(f.insert(route(vrf)), OK);
    }
    let dump = f.switch.dump(false);
    let other = Fixture::new();
    for vrf in ["green", "yellow", "red"] {
        assert_eq!(other.insert(route(vrf)), OK);
    }
    assert_eq!(other.switch.restore(&dump), Ok(None));
    assert_eq!(other.all("routes"), f.all("routes"));
    for vrf in ["red", "blue"] {
        assert_eq!(other.insert(route(vrf)), EXISTS, "{vrf}");
    }
    assert_eq!(other.insert(route("green")), OK);
    let all = other.all("routes");
    assert!(all.len() == 3 && all.contains(&route("green")), "{all:?}");
}

/// A string keeps its number while an action, a member, a default action or a register has it.
#[test]
fn tr_4_strings_that_the_state_has_keep_their_numbers() {
    let program = PROGRAM
        .replace("register<cell_t>(4) cells;", "register<cell_t>(4) cells; register<vrf_t>(2) vrfs;")
        .replace("cells.read(cell, 1);", "cells.read(cell, 1); vrfs.read(m.vrf, 0);")
        .replace(
            "action tag(",
            "action enter(vrf_t vrf) { m.vrf = vrf; }
    action tag(",
        )
        .replace("actions = { tag; NoAction; }", "actions = { tag; enter; NoAction; }")
        .replace(
            "actions = { forward; drop_it; NoAction; }",
            "actions = { forward; drop_it; enter; NoAction; }",
        )
        .replace(
            "table keyless {
        actions = { forward; NoAction; }",
            "table keyless {
        actions = { forward; enter; NoAction; }",
        );
    let f = Fixture::of(&program);
    let value = |name: &str| bytes::Bytes::from(name.to_string());
    let enter = |name: &str| v1::Action {
        action_id: f.action_id("enter"),
        params: vec![v1::ActionParam { param_id: 1, value: value(name) }],
    };
    let act = |name: &str| Some(TableAction { r#type: Some(TableActionType::Action(enter(name))) });
    let entry = TableEntry { priority: 1, ..f.entry("labels", vec![exact(2, 1)], act("of an entry")) };
    let default =
        TableEntry { is_default_action: true, ..f.entry("keyless", vec![], act("of a default action")) };
    let member = EntityKind::ActionProfileMember(v1::ActionProfileMember {
        action_profile_id: f.profile("paths"),
        member_id: 1,
        action: Some(enter("of a member")),
    });
    let register = EntityKind::RegisterEntry(v1::RegisterEntry {
        register_id: f.register("vrfs"),
        index: Some(v1::Index { index: 1 }),
        data: Some(v1::P4Data { data: Some(v1::DataValue::Bitstring(value("of a register"))) }),
    });
    assert_eq!((f.insert(entry.clone()), f.modify(default.clone())), (OK, OK));
    assert_eq!(f.code(UpdateType::Insert, member.clone()), OK);
    assert_eq!(f.code(UpdateType::Modify, register.clone()), OK);
    // The others take all that is left; a further one gets a number that became free, and no other.
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    let of = |n: u32| update(UpdateType::Insert, EntityKind::TableEntry(route(&format!("vrf-{n}"))));
    assert_eq!(f.write((0..1019).map(of).collect(), Atomicity::RollbackOnError).errors, None);
    assert_eq!(f.insert(route("more")), FULL);
    assert_eq!(
        (f.delete(route("vrf-900")), f.insert(route("more")), f.insert(route("again"))),
        (OK, OK, FULL)
    );
    assert_eq!(f.all("labels"), [entry]);
    assert!(f.entries(TableEntry { is_default_action: true, ..Default::default() }).contains(&default));
    for kind in [member, register] {
        let pattern = match &kind {
            EntityKind::ActionProfileMember(_) => EntityKind::ActionProfileMember(Default::default()),
            _ => EntityKind::RegisterEntry(v1::RegisterEntry {
                register_id: f.register("vrfs"),
                ..Default::default()
            }),
        };
        assert!(f.read(pattern).contains(&kind), "{kind:?}");
    }
}

/// New strings get numbers that neither runtime commands nor clients have written.
#[test]
fn tr_4_new_strings_have_numbers_that_the_state_has_not() {
    use p4jet_tables::KeyMatch;
    let f = Fixture::new();
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    let control = f.switch.control();
    let table = control.schema().table("routes").unwrap();
    let action = control.schema().action(table, "NoAction").unwrap();
    let command = |vrf: u32| {
        let act = p4jet_control::Act::Action(p4jet_tables::Action { action, data: Vec::new() });
        let whole = KeyMatch::Lpm { value: 0u32.into(), prefix_len: 0 };
        let key = vec![KeyMatch::Exact(vrf.into()), whole];
        let insert = p4jet_control::Update::Insert { table, key, priority: 0, act };
        assert!(f.switch.write(vec![insert], p4jet_control::Atomicity::AllOrNothing).0.in_effect);
    };
    let mut expected = Vec::new();
    for (number, name) in [(1023, "first"), (1021, "second"), (1019, "third")] {
        command(number);
        assert_eq!(f.insert(route(name)), OK);
        expected.extend([route(&number.to_string()), route(name)]);
    }
    for entry in &expected {
        assert!(f.all("routes").contains(entry), "{entry:?}");
    }
    assert_eq!(f.all("routes").len(), expected.len());
    for (number, code) in [("1022", INVALID), ("1021", EXISTS), ("1020", INVALID), ("1018", INVALID)] {
        assert_eq!(f.insert(route(number)), code, "{number}");
    }
    // Neither does a server that starts with this state.
    let pipeline = Pipeline::new(p4info(PROGRAM), &control).unwrap_or_else(|_| panic!("it fits"));
    let f = Fixture { pipeline, ..f };
    let route = |vrf: &str| f.entry("routes", vec![string(1, vrf)], f.act("NoAction", &[]));
    assert_eq!((f.insert(route("1017")), f.insert(route("fourth"))), (OK, OK));
    assert!(f.all("routes").contains(&route("1017")) && f.all("routes").contains(&route("fourth")));
}

#[test]
fn tr_10_a_number_that_is_too_large_for_the_program_is_refused() {
    let f = Fixture::new();
    let label =
        |m: Vec<FieldMatch>, to: u64| TableEntry { priority: 1, ..f.entry("labels", m, f.act("tag", &[to])) };
    let whole = |value| vec![ternary(1, value, 0xffff_ffff), exact(2, 1)];
    assert_eq!(f.insert(label(whole(0xfff), 0xfff)), OK);
    // Without the upper bits, each would be that entry, or have its action.
    for wrong in [label(whole(0x1fff), 1), label(whole(0xffff_ffff), 1), label(whole(2), 0x1fff)] {
        let error = f.update(UpdateType::Insert, EntityKind::TableEntry(wrong));
        assert_eq!(error.canonical_code, INVALID, "{error:?}");
        assert!(error.message.contains("has no number in the program, whose type has 12 bits"), "{error:?}");
    }
    assert_eq!(f.all("labels"), [label(whole(0xfff), 0xfff)]);
}

#[test]
fn z_18_entries_of_commands_are_read() {
    let f = Fixture::new();
    let control = f.switch.control();
    let table = control.schema().table("l2").unwrap();
    let action = control.schema().action(table, "forward").unwrap();
    let act = p4jet_control::Act::Action(p4jet_tables::Action { action, data: vec![9u32.into()] });
    let key = vec![p4jet_tables::KeyMatch::Exact(3u32.into())];
    let insert = p4jet_control::Update::Insert { table, key, priority: 0, act };
    f.switch.write(vec![insert], p4jet_control::Atomicity::AllOrNothing);
    assert_eq!(f.all("l2"), [f.l2(3, 9)]);
    assert_eq!(f.delete(f.l2(3, 9)), OK);
}

/// A P4Info that a client forgot is accepted (P-4), so refusals name it.
#[test]
fn an_empty_p4info_is_named() {
    let f = Fixture::new();
    let entry = EntityKind::TableEntry(f.l2(1, 1));
    let pipeline = Pipeline::new(Default::default(), &f.switch.control()).unwrap_or_else(|e| panic!("{e:?}"));
    let f = Fixture { pipeline, ..f };
    let error = f.update(UpdateType::Insert, entry);
    assert_eq!(error.canonical_code, INVALID);
    assert!(error.message.ends_with("; the P4Info of this configuration is empty"), "{error:?}");
}

/// The number of an entry that exists already is a word of runtime commands.
#[test]
fn an_entry_that_exists_has_no_handle() {
    let f = Fixture::new();
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    let error = f.update(UpdateType::Insert, EntityKind::TableEntry(f.l2(1, 1)));
    assert_eq!(error.canonical_code, EXISTS);
    let words =
        error.message.contains("l2`") && error.message.ends_with("an entry with this key already exists");
    assert!(words, "{error:?}");
}
