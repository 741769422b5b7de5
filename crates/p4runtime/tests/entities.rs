//! Entities other than table entries: sections 9 to 14 of the requirements, one test for each number that concerns them.

use crate::common::*;
use UpdateType::{Delete, Insert, Modify};
use p4jet_control::{Act, EntryKey, EntryRef, Share, Update};
use p4jet_p4info::proto::v1::{
    self, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember, Atomicity,
    CloneSessionEntry, CounterData, CounterEntry, DataValue, DigestConfig, DigestEntry, DirectCounterEntry,
    DirectMeterEntry, EntityKind, GroupMember, Index, MeterConfig, MeterEntry, MulticastGroupEntry, P4Data,
    P4StructLike, PacketReplicationEngineEntry, PortKind, RegisterEntry, Replica, ReplicationType,
    TableAction, TableActionType, TableEntry, UpdateType, ValueSetEntry, ValueSetMember,
};
use p4jet_p4runtime::pipeline::Pipeline;

fn member(f: &Fixture, id: u32, port: u64) -> ActionProfileMember {
    let action = Some(f.action("forward", &[port]));
    ActionProfileMember { action_profile_id: f.profile("paths"), member_id: id, action }
}

fn group(f: &Fixture, id: u32, members: &[(u32, i32)]) -> ActionProfileGroup {
    let member =
        |(id, weight): &(u32, i32)| GroupMember { member_id: *id, weight: *weight, watch_kind: None };
    ActionProfileGroup {
        action_profile_id: f.profile("paths"),
        group_id: id,
        members: members.iter().map(member).collect(),
        max_size: 0,
    }
}

fn write_member(f: &Fixture, kind: UpdateType, member: ActionProfileMember) -> i32 {
    f.code(kind, EntityKind::ActionProfileMember(member))
}

fn write_group(f: &Fixture, kind: UpdateType, group: ActionProfileGroup) -> i32 {
    f.code(kind, EntityKind::ActionProfileGroup(group))
}

fn members(f: &Fixture) -> Vec<EntityKind> {
    f.read(EntityKind::ActionProfileMember(ActionProfileMember::default()))
}

fn groups(f: &Fixture) -> Vec<EntityKind> {
    f.read(EntityKind::ActionProfileGroup(ActionProfileGroup::default()))
}

fn act(of: TableActionType) -> Option<TableAction> {
    Some(TableAction { r#type: Some(of) })
}

fn spread(f: &Fixture, dst: u64, of: TableActionType) -> TableEntry {
    f.entry("spread", vec![exact(1, dst)], act(of))
}

#[test]
fn ap_1_and_ap_15_members_groups_and_one_shots_of_any_actions() {
    let actions = |f: &Fixture| {
        [("forward", &[3][..]), ("drop_it", &[]), ("NoAction", &[])]
            .map(|(name, arguments)| Some(f.action(name, arguments)))
    };
    // Whichever of them an entry has, packets run all three actions.
    let check = |f: &Fixture| {
        let control = f.switch.control();
        let table = control.switch().table(control.schema().table("spread").unwrap());
        let (_, entry) = table.entries().next().unwrap();
        let chosen = (0..3).map(|selector| table.resolve(&entry.action, selector).action.unwrap().action);
        assert_eq!(chosen.collect::<std::collections::HashSet<_>>().len(), 3);
    };
    let f = Fixture::new();
    for (member_id, action) in (1..).zip(actions(&f)) {
        let member = ActionProfileMember { action_profile_id: f.profile("paths"), member_id, action };
        assert_eq!(write_member(&f, Insert, member), OK);
    }
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, 1), (2, 1), (3, 1)])), OK);
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileGroupId(1))), OK);
    check(&f);
    let f = Fixture::new();
    let action = |action| ActionProfileAction { action, weight: 1, watch_kind: None };
    let set = ActionProfileActionSet {
        action_profile_actions: actions(&f).map(action).into(),
        ..ActionProfileActionSet::default()
    };
    let entry = spread(&f, 1, TableActionType::ActionProfileActionSet(set));
    assert_eq!(f.insert(entry.clone()), OK);
    assert_eq!(f.all("spread"), [entry]);
    check(&f);
}

/// Member 1.
fn member_1(f: &Fixture) -> ActionProfileMember {
    member(f, 1, 1)
}

#[test]
fn os_12_commands_cannot_change_one_shots() {
    let f = Fixture::new();
    let entry = spread(&f, 1, set(&f, &[(1, 1), (2, 2)]));
    assert_eq!(f.insert(entry.clone()), OK);
    let control = f.switch.control();
    let table = control.schema().table("spread").unwrap();
    let profile = control.program().tables[table.index()].profile.unwrap();
    let store = control.profile(table).unwrap();
    let (member, action) = store.members_from(0, 1).0.remove(0);
    let group = store.groups_from(0, 1).0[0].0;
    let command = |update| {
        let mut written = f.switch.write(vec![update], p4jet_control::Atomicity::AllOrNothing).0;
        written.results.pop().unwrap()
    };
    let key = vec![p4jet_tables::KeyMatch::Exact(2u32.into())];
    let insert = |act| Update::Insert { table, key: key.clone(), priority: 0, act };
    let (member_of, group_of) = ("belongs to a one-shot of P4Runtime", "is a one-shot of P4Runtime");
    for (update, words) in [
        (
            Update::CreateMember { profile, action: action.clone() },
            "delete their entries before you add members or groups",
        ),
        (Update::CreateGroup { profile }, "delete their entries before you add members or groups"),
        (Update::ModifyMember { profile, member: member.into(), action: action.clone() }, member_of),
        (Update::DeleteMember { profile, member: member.into() }, member_of),
        (Update::AddToGroup { profile, group: group.into(), member: member.into() }, group_of),
        (Update::RemoveFromGroup { profile, group: group.into(), member: member.into() }, group_of),
        (
            Update::SetGroup { profile, group: group.into(), members: vec![Share { member, weight: 9 }] },
            group_of,
        ),
        (insert(Act::Member(member.into())), member_of),
        (insert(Act::Group(group.into())), group_of),
        (Update::SetDefault { table, act: Act::Group(group.into()) }, group_of),
    ] {
        let shown = format!("{update:?}");
        let error = command(update).expect_err(&shown);
        assert!(error.message.contains(words), "{shown}: {error}");
        assert_eq!(error.entity.as_deref(), Some("I.paths"));
    }
    assert_eq!(f.all("spread"), std::slice::from_ref(&entry));
    // What has no entry any more can be removed.
    let delete = Update::Delete {
        table,
        entry: EntryRef::Key(Box::new(EntryKey {
            key: vec![p4jet_tables::KeyMatch::Exact(1u32.into())],
            priority: 0,
        })),
    };
    command(delete).unwrap();
    command(Update::DeleteGroup { profile, group: group.into() }).unwrap();
    for (member, _) in store.members_from(0, 9).0 {
        command(Update::DeleteMember { profile, member: member.into() }).unwrap();
    }
    assert_eq!(left_of(&f), (0, 0));
    // Members and groups of clients are no one-shots.
    assert_eq!(write_member(&f, Insert, member_1(&f)), OK);
    command(Update::ModifyMember { profile, member: 1.into(), action }).unwrap();
    assert_eq!(write_member(&f, Delete, member_1(&f)), OK);
    assert_eq!(f.insert(entry.clone()), OK);
    assert_eq!(f.delete(entry), OK);
    assert_eq!(left_of(&f), (0, 0));
}

#[test]
fn refusals_of_unknown_members_name_the_field_and_the_choices() {
    let f = Fixture::new();
    let insert = |of| f.update(Insert, EntityKind::TableEntry(spread(&f, 1, of)));
    let error = insert(TableActionType::ActionProfileMemberId(77));
    assert_eq!(error.canonical_code, NOT_FOUND);
    assert_eq!(
        error.message,
        "`I.spread`: `action_profile_member_id`: `I.paths` has no member 77: there is none"
    );
    for id in [3, 5] {
        assert_eq!(write_member(&f, Insert, member(&f, id, 1)), OK);
    }
    let error = insert(TableActionType::ActionProfileMemberId(77));
    assert!(error.message.ends_with("`I.paths` has no member 77: expected 3, 5"), "{}", error.message);
    assert_eq!(write_group(&f, Insert, group(&f, 4, &[(3, 1)])), OK);
    let error = insert(TableActionType::ActionProfileGroupId(1));
    assert_eq!(error.message, "`I.spread`: `action_profile_group_id`: `I.paths` has no group 1: expected 4");
    let error = f.update(Modify, EntityKind::ActionProfileMember(member(&f, 7, 1)));
    assert_eq!(error.message, "`I.paths` has no member 7: expected 3, 5");
    let error = f.update(Modify, EntityKind::ActionProfileGroup(group(&f, 4, &[(3, 1), (6, 1)])));
    assert_eq!(error.message, "`I.paths` has no member 6: expected 3, 5");
    // This refusal comes from p4jet-control.
    let error = f.update(Delete, EntityKind::ActionProfileMember(member(&f, 3, 1)));
    assert!(error.message.starts_with("`I.paths`, member: "), "{}", error.message);
}

#[test]
fn ap_2_members_are_inserted_once() {
    let f = Fixture::new();
    assert_eq!(write_member(&f, Insert, member(&f, 0, 1)), INVALID);
    assert_eq!(write_member(&f, Insert, member(&f, 100, 1)), OK);
    assert_eq!(write_member(&f, Insert, member(&f, 100, 1)), EXISTS);
    assert_eq!(write_member(&f, Insert, ActionProfileMember { action: None, ..member(&f, 1, 1) }), INVALID);
    let foreign = Some(f.action("classify", &[1]));
    assert_eq!(
        write_member(&f, Insert, ActionProfileMember { action: foreign, ..member(&f, 1, 1) }),
        INVALID
    );
    let nowhere = ActionProfileMember { action_profile_id: 9, ..member(&f, 1, 1) };
    assert_eq!(write_member(&f, Insert, nowhere), INVALID);
    for id in 1..16 {
        assert_eq!(write_member(&f, Insert, member(&f, id, 1)), OK);
    }
    assert_eq!(write_member(&f, Insert, member(&f, 16, 1)), FULL);
    assert_eq!(write_member(&f, Insert, member(&f, 5, 1)), EXISTS, "existence comes before capacity");
}

#[test]
fn ap_3_and_ap_4_members_change_and_go() {
    let f = Fixture::new();
    assert_eq!(write_member(&f, Modify, member(&f, 7, 1)), NOT_FOUND);
    assert_eq!(write_member(&f, Delete, member(&f, 7, 1)), NOT_FOUND);
    assert_eq!(write_member(&f, Insert, member(&f, 7, 1)), OK);
    assert_eq!(write_member(&f, Modify, member(&f, 7, 2)), OK);
    assert_eq!(members(&f), [EntityKind::ActionProfileMember(member(&f, 7, 2))]);
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileMemberId(7))), OK);
    assert_eq!(write_member(&f, Delete, member(&f, 7, 1)), IN_USE);
    assert_eq!(f.delete(spread(&f, 1, TableActionType::ActionProfileMemberId(7))), OK);
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(7, 1)])), OK);
    assert_eq!(write_member(&f, Delete, member(&f, 7, 1)), IN_USE);
    assert_eq!(write_group(&f, Delete, group(&f, 1, &[])), OK);
    assert_eq!(write_member(&f, Delete, member(&f, 7, 1)), OK);
    assert!(members(&f).is_empty());
}

#[test]
fn ap_5_groups_have_members_that_exist() {
    let f = Fixture::new();
    for id in 1..4 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    assert_eq!(write_group(&f, Insert, group(&f, 0, &[])), INVALID);
    assert_eq!(write_group(&f, Insert, group(&f, 5, &[(9, 1)])), NOT_FOUND);
    assert_eq!(write_group(&f, Insert, group(&f, 5, &[(1, 1), (1, 1)])), INVALID);
    let no_selector =
        ActionProfileGroup { action_profile_id: f.profile("fixed_actions"), ..group(&f, 5, &[]) };
    assert_eq!(write_group(&f, Insert, no_selector), INVALID);
    assert!(groups(&f).is_empty(), "an update that fails leaves nothing");
    assert_eq!(write_group(&f, Insert, group(&f, 5, &[])), OK);
    assert_eq!(write_group(&f, Insert, group(&f, 5, &[])), EXISTS);
    // AP-9: an entry may name it.
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileGroupId(5))), OK);
    assert_eq!(write_group(&f, Modify, group(&f, 5, &[(2, 2), (1, 1)])), OK);
    assert_eq!(write_group(&f, Modify, group(&f, 6, &[])), NOT_FOUND);
    // AP-16, AP-14: as written, in its order.
    assert_eq!(groups(&f), [EntityKind::ActionProfileGroup(group(&f, 5, &[(2, 2), (1, 1)]))]);
    let one = ActionProfileGroup { group_id: 6, ..group(&f, 6, &[]) };
    assert!(f.read(EntityKind::ActionProfileGroup(one)).is_empty());
    // AP-13.
    assert_eq!(write_group(&f, Delete, group(&f, 5, &[])), IN_USE);
    assert_eq!(f.delete(spread(&f, 1, TableActionType::ActionProfileGroupId(5))), OK);
    assert_eq!(write_group(&f, Delete, group(&f, 5, &[])), OK);
    assert_eq!(write_group(&f, Delete, group(&f, 5, &[])), NOT_FOUND);
    assert_eq!(write_member(&f, Delete, member(&f, 1, 1)), OK);
}

#[test]
fn ap_6_to_ap_12_weights_and_sizes() {
    let f = Fixture::new();
    for id in 1..5 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    for weight in [0, -1] {
        assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, weight)])), INVALID);
    }
    // The sum of weights is at most 6.
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, 4), (2, 3)])), INVALID);
    assert_eq!(write_group(&f, Insert, ActionProfileGroup { max_size: 7, ..group(&f, 1, &[]) }), INVALID);
    assert_eq!(write_group(&f, Insert, ActionProfileGroup { max_size: -1, ..group(&f, 1, &[]) }), INVALID);
    let small = ActionProfileGroup { max_size: 3, ..group(&f, 1, &[(1, 3)]) };
    assert_eq!(write_group(&f, Insert, small.clone()), OK);
    assert_eq!(groups(&f), [EntityKind::ActionProfileGroup(small)]);
    assert_eq!(write_group(&f, Modify, ActionProfileGroup { max_size: 4, ..group(&f, 1, &[]) }), INVALID);
    // Z-9: 0 leaves it.
    assert_eq!(write_group(&f, Modify, group(&f, 1, &[(1, 4)])), INVALID);
    assert_eq!(write_group(&f, Modify, group(&f, 1, &[(1, 1), (2, 2)])), OK);
}

#[test]
fn ap_7_weights_decide_how_often_a_member_is_chosen() {
    let f = Fixture::new();
    for id in 1..4 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, 1), (2, 3), (3, 2)])), OK);
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileGroupId(1))), OK);
    let control = f.switch.control();
    let table = control.schema().table("spread").unwrap();
    let table = control.switch().table(table);
    let (_, entry) = table.entries().next().unwrap();
    let mut chosen = [0; 4];
    for selector in 0..600 {
        let action = table.resolve(&entry.action, selector).action.unwrap();
        chosen[usize::try_from(&action.data[0]).unwrap()] += 1;
    }
    assert_eq!(chosen, [0, 100, 300, 200]);
    // Packets find the same.
    let guard = p4jet_tables::pin();
    let view = table.view_handle();
    let row = table.row_of(table.entries().next().unwrap().0);
    let mut chosen = [0; 4];
    for selector in 0..600 {
        chosen[view.get(&guard).selected(row, selector)[1] as usize] += 1;
    }
    assert_eq!(chosen, [0, 100, 300, 200]);
}

fn set(f: &Fixture, ports: &[(u64, i32)]) -> TableActionType {
    let action = |(port, weight): &(u64, i32)| ActionProfileAction {
        action: Some(f.action("forward", &[*port])),
        weight: *weight,
        watch_kind: None,
    };
    TableActionType::ActionProfileActionSet(ActionProfileActionSet {
        action_profile_actions: ports.iter().map(action).collect(),
        ..ActionProfileActionSet::default()
    })
}

fn left_of(f: &Fixture) -> (usize, usize) {
    let control = f.switch.control();
    let table = control.schema().table("spread").unwrap();
    let profile = control.profile(table).unwrap();
    (profile.members().len(), profile.groups().len())
}

#[test]
fn os_1_to_os_8_one_shots() {
    let f = Fixture::new();
    let wrong = f.entry("indirect", vec![exact(1, 1)], act(set(&f, &[(1, 1)])));
    assert_eq!(f.insert(wrong), INVALID);
    for wrong in [set(&f, &[(1, 0)]), set(&f, &[(1, -1)]), set(&f, &[(1, 7)])] {
        assert_eq!(f.insert(spread(&f, 1, wrong)), INVALID);
    }
    let mut unlisted = set(&f, &[(1, 1)]);
    if let TableActionType::ActionProfileActionSet(set) = &mut unlisted {
        set.action_profile_actions[0].action = Some(f.action("classify", &[1]));
    }
    assert_eq!(f.insert(spread(&f, 1, unlisted)), INVALID);
    assert_eq!(left_of(&f), (0, 0));
    // OS-4: the same order, equal actions not merged. OS-5: an empty set.
    let entry = spread(&f, 1, set(&f, &[(3, 1), (2, 2), (3, 1)]));
    assert_eq!(f.insert(entry.clone()), OK);
    assert_eq!(f.insert(entry.clone()), EXISTS);
    let empty = spread(&f, 2, set(&f, &[]));
    assert_eq!(f.insert(empty.clone()), OK);
    assert_eq!(f.all("spread"), [entry.clone(), empty.clone()]);
    // Q-15, OS-6.
    assert!(members(&f).is_empty() && groups(&f).is_empty());
    assert_eq!(write_member(&f, Insert, member(&f, 1, 1)), INVALID);
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[])), INVALID);
    assert_eq!(f.insert(spread(&f, 3, TableActionType::ActionProfileMemberId(u32::MAX))), INVALID);
    // OS-8.
    let big = |dst| spread(&f, dst, set(&f, &[(1, 1); 6]));
    assert_eq!((f.insert(big(4)), f.insert(big(5)), f.insert(big(6))), (OK, OK, FULL));
    assert_eq!((f.delete(big(4)), f.delete(big(5))), (OK, OK));
    // OS-7.
    let other = spread(&f, 1, set(&f, &[(5, 1)]));
    assert_eq!(f.modify(other.clone()), OK);
    assert_eq!(f.all("spread"), [other.clone(), empty.clone()]);
    assert_eq!(left_of(&f), (1, 2));
    assert_eq!((f.delete(other), f.delete(empty)), (OK, OK));
    assert_eq!(left_of(&f), (0, 0));
    assert_eq!(write_member(&f, Insert, member(&f, 1, 1)), OK);
    assert_eq!(f.insert(entry), INVALID);
}

#[test]
fn os_3_sizes_count_members_if_the_profile_requires_it() {
    let f = Fixture::new();
    let entry = |dst, ports: &[(u64, i32)]| f.entry("counted", vec![exact(1, dst)], act(set(&f, ports)));
    assert_eq!(f.insert(entry(1, &[(1, 5), (2, 5), (3, 5)])), OK);
    assert_eq!(f.insert(entry(2, &[(1, 1); 4])), INVALID);
    assert_eq!(f.insert(entry(2, &[(1, 6)])), INVALID);
    // OS-10: the set's own semantics.
    let mut weights = entry(2, &[(1, 2), (2, 2)]);
    if let Some(TableAction { r#type: Some(TableActionType::ActionProfileActionSet(set)) }) =
        &mut weights.action
    {
        set.size_semantics = 1;
    }
    assert_eq!(f.insert(weights), INVALID);
    // OS-9.
    let mut random = entry(2, &[(1, 1)]);
    if let Some(TableAction { r#type: Some(TableActionType::ActionProfileActionSet(set)) }) =
        &mut random.action
    {
        set.action_selection_mode = 2;
    }
    assert_eq!(f.insert(random), UNIMPLEMENTED);
}

#[test]
fn w_13_rollback_of_members_groups_and_replication() {
    let f = Fixture::new();
    assert_eq!(write_member(&f, Insert, member(&f, 1, 1)), OK);
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, 4)])), OK);
    assert_eq!(f.code(Insert, multicast(3, &[(1, 1), (2, 2)])), OK);
    let metadata = TableEntry { metadata: "abc".into(), ..f.l2(1, 1) };
    assert_eq!(f.insert(metadata.clone()), OK);
    let before = f.switch.dump(true);
    let updates = vec![
        update(Delete, EntityKind::ActionProfileGroup(group(&f, 1, &[]))),
        update(Delete, EntityKind::ActionProfileMember(member(&f, 1, 1))),
        update(Delete, multicast(3, &[])),
        update(Insert, multicast(4, &[(1, 1)])),
        update(Insert, session(4, &[(1, 1), (2, 2)])),
        update(
            Insert,
            EntityKind::DigestEntry(DigestEntry { digest_id: f.digest("learned_t"), config: None }),
        ),
        update(Delete, EntityKind::TableEntry(metadata)),
        update(Delete, EntityKind::TableEntry(f.l2(9, 1))),
    ];
    let errors = f.write(updates, Atomicity::RollbackOnError).errors.unwrap();
    assert_eq!(errors.last().unwrap().canonical_code, NOT_FOUND);
    assert_eq!(f.switch.dump(true), before);
}

#[test]
fn e_6_metadata_is_kept_and_filters() {
    let f = Fixture::new();
    let entry = TableEntry { controller_metadata: 7, metadata: "cookie".into(), ..f.l2(1, 1) };
    assert_eq!(f.insert(entry.clone()), OK);
    assert_eq!(f.insert(TableEntry { controller_metadata: 8, ..f.l2(2, 1) }), OK);
    assert!(f.all("l2").contains(&entry));
    let by = |controller_metadata, metadata: &'static str| {
        let pattern =
            TableEntry { controller_metadata, metadata: metadata.into(), ..f.entry("l2", vec![], None) };
        f.entries(pattern).len()
    };
    assert_eq!((by(7, ""), by(8, ""), by(9, ""), by(0, "cookie"), by(8, "cookie")), (1, 1, 0, 1, 0));
    // A modification gives the full state.
    assert_eq!(f.modify(f.l2(1, 2)), OK);
    assert!(f.all("l2").contains(&f.l2(1, 2)));
    assert_eq!(f.modify(entry.clone()), OK);
    // A new entry in its place has none.
    assert_eq!(f.delete(entry.clone()), OK);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert!(f.all("l2").contains(&f.l2(1, 1)));
    let long = TableEntry { metadata: vec![1; 65 * 1024].into(), ..f.l2(3, 1) };
    assert_eq!(f.insert(long), FULL);
    // E-31, E-32: of the default entry, too.
    let default = TableEntry {
        is_default_action: true,
        metadata: "d".into(),
        ..f.entry("l2", vec![], f.act("forward", &[1]))
    };
    assert_eq!(f.modify(default.clone()), OK);
    let pattern = TableEntry { is_default_action: true, ..f.entry("l2", vec![], None) };
    assert_eq!(f.entries(pattern.clone())[0], default);
    assert_eq!(f.modify(TableEntry { action: None, metadata: Default::default(), ..default }), OK);
    assert!(f.entries(pattern)[0].metadata.is_empty());
}

#[test]
fn e_62_idle_times_are_read_to_the_nanosecond() {
    let f = Fixture::new();
    let entry =
        |ns| TableEntry { idle_timeout_ns: ns, ..f.entry("aged", vec![exact(1, 1)], f.act("forward", &[1])) };
    assert_eq!(f.insert(entry(1)), OK);
    assert_eq!(f.all("aged"), [entry(1)]);
    let max = i64::from(u32::MAX) * 1_000_000;
    for ns in [1_500_000, max, max - 1, 0, 2_000_000, 1_500_001] {
        assert_eq!(f.modify(entry(ns)), OK);
        assert_eq!(f.all("aged"), [entry(ns)]);
    }
    for ns in [max + 1, i64::MAX] {
        let error = f.update(Modify, EntityKind::TableEntry(entry(ns)));
        assert_eq!(error.canonical_code, RANGE, "{error:?}");
        assert!(error.message.contains("expected at most 4294967295000000"), "{error:?}");
    }
    assert_eq!(f.all("aged"), [entry(1_500_001)]);
}

/// A timeout that a command sets replaces the client's, even if both are the same in whole milliseconds; the metadata stays.
#[test]
fn e_62_the_timeout_of_a_command_is_read() {
    let f = Fixture::new();
    let entry = |ns| TableEntry {
        idle_timeout_ns: ns,
        metadata: "mine".into(),
        ..f.entry("aged", vec![exact(1, 1)], f.act("forward", &[1]))
    };
    assert_eq!(f.insert(entry(1_500_001)), OK);
    let control = f.switch.control();
    let table = control.schema().table("aged").unwrap();
    let (handle, _) = control.switch().table(table).entries().next().unwrap();
    for timeout_ms in [2, 7] {
        let set = Update::SetTimeout { table, entry: handle.0.into(), timeout_ms };
        assert!(f.switch.write(vec![set], p4jet_control::Atomicity::AllOrNothing).0.in_effect);
        assert_eq!(f.all("aged"), [entry(i64::from(timeout_ms) * 1_000_000)]);
    }
    // A batch that is undone leaves the client's.
    assert_eq!(f.modify(entry(2_500_001)), OK);
    let wrong = Update::SetTimeout { table, entry: EntryRef::from(999), timeout_ms: 1 };
    let set = Update::SetTimeout { table, entry: handle.0.into(), timeout_ms: 9 };
    let written = f.switch.write(vec![set, wrong], p4jet_control::Atomicity::AllOrNothing).0;
    assert!(!written.in_effect);
    assert_eq!(f.all("aged"), [entry(2_500_001)]);
}

/// A command that adds a member to a group or removes one leaves what a client gave to the others.
#[test]
fn z_18_a_command_keeps_the_rest_of_a_group() {
    let f = Fixture::new();
    for id in 1..5 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    let mut given = ActionProfileGroup { max_size: 6, ..group(&f, 1, &[(3, 3), (1, 2)]) };
    given.members[0].watch_kind = Some(v1::WatchKind::WatchPort(bytes(5)));
    assert_eq!(write_group(&f, Insert, given.clone()), OK);
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileGroupId(1))), OK);
    let control = f.switch.control();
    let table = control.schema().table("spread").unwrap();
    let profile = control.program().tables[table.index()].profile.unwrap();
    let add = |member: u32| Update::AddToGroup { profile, group: 1.into(), member: member.into() };
    let remove = |member: u32| Update::RemoveFromGroup { profile, group: 1.into(), member: member.into() };
    let write = |batch| f.switch.write(batch, p4jet_control::Atomicity::AllOrNothing).0.in_effect;
    let shown = |members: &[GroupMember]| {
        let group = ActionProfileGroup { members: members.to_vec(), ..given.clone() };
        assert_eq!(groups(&f), [EntityKind::ActionProfileGroup(group)]);
    };
    let places = || control.profile(table).unwrap().group_places(1).unwrap().0;
    let added = GroupMember { member_id: 2, weight: 1, watch_kind: None };
    assert!(write(vec![add(2)]));
    shown(&[given.members[0].clone(), given.members[1].clone(), added.clone()]);
    assert_eq!(places(), [(1, 2), (2, 1), (3, 3)]);
    assert!(write(vec![remove(1)]));
    shown(&[given.members[0].clone(), added.clone()]);
    // A batch that is undone changes nothing, not even the places.
    assert!(!write(vec![remove(3), add(4), add(4)]));
    shown(&[given.members[0].clone(), added.clone()]);
    assert_eq!(places(), [(2, 1), (3, 3)]);
    // A state file has it, too.
    let dump = f.switch.dump(false);
    assert!(write(vec![
        Update::Delete { table, entry: 0.into() },
        Update::DeleteGroup { profile, group: 1.into() }
    ]));
    assert_eq!(f.switch.restore(&dump), Ok(None));
    shown(&[given.members[0].clone(), added]);
    // Weights that another client sets are shown.
    let members = vec![p4jet_control::Share { member: 2, weight: 4 }];
    assert!(write(vec![Update::SetGroup { profile, group: 1.into(), members }]));
    let members = vec![GroupMember { member_id: 2, weight: 4, watch_kind: None }];
    let group = ActionProfileGroup { members, max_size: 0, ..given };
    assert_eq!(groups(&f), [EntityKind::ActionProfileGroup(group)]);
}

/// A group that a command sets is read with its weights, and with none if the selector allows none.
#[test]
fn z_18_weights_of_groups_of_commands_are_read() {
    let f = Fixture::new();
    for id in 1..3 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    let control = f.switch.control();
    let table = control.schema().table("spread").unwrap();
    let profile = control.program().tables[table.index()].profile.unwrap();
    let write = |batch| f.switch.write(batch, p4jet_control::Atomicity::AllOrNothing).0.in_effect;
    let members = vec![Share { member: 1, weight: 1 }, Share { member: 2, weight: 3 }];
    assert!(write(vec![
        Update::CreateGroup { profile },
        Update::SetGroup { profile, group: 0.into(), members }
    ]));
    let shown = |f: &Fixture| match &groups(f)[..] {
        [EntityKind::ActionProfileGroup(group)] => {
            group.members.iter().map(|member| (member.member_id, member.weight)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(&f), [(1, 1), (2, 3)]);
    let mut info = p4info(PROGRAM);
    info.action_profiles.iter_mut().for_each(|profile| profile.weights_disallowed = true);
    let pipeline = Pipeline::new(info, &control).unwrap_or_else(|_| panic!("it fits"));
    let f = Fixture { pipeline, ..f };
    assert_eq!(shown(&f), [(1, 0), (2, 0)]);
    // The first member of a group without members.
    assert_eq!(write_group(&f, Insert, group(&f, 7, &[])), OK);
    let batch = vec![
        Update::DeleteGroup { profile, group: 0.into() },
        Update::AddToGroup { profile, group: 7.into(), member: 1.into() },
    ];
    assert!(f.switch.write(batch, p4jet_control::Atomicity::AllOrNothing).0.in_effect);
    assert_eq!(shown(&f), [(1, 0)]);
}

/// The sizes of all groups and one-shots of a selector are at most its size.
#[test]
fn ap_11_and_os_8_the_size_of_a_selector_counts_weights() {
    let f = Fixture::new();
    for id in 1..4 {
        assert_eq!(write_member(&f, Insert, member(&f, id, id.into())), OK);
    }
    // The size is 16, and no group is larger than 6.
    for id in [1, 2] {
        assert_eq!(write_group(&f, Insert, group(&f, id, &[(1, 5), (2, 1)])), OK);
    }
    let error = f.update(Insert, EntityKind::ActionProfileGroup(group(&f, 3, &[(1, 3), (2, 2)])));
    assert_eq!(error.canonical_code, FULL, "{error:?}");
    assert!(
        error.message.contains("all groups together would have 17 weights, but its size is 16"),
        "{error:?}"
    );
    assert_eq!(write_group(&f, Insert, group(&f, 3, &[(1, 3), (2, 1)])), OK);
    assert_eq!(write_group(&f, Modify, group(&f, 3, &[(1, 5)])), FULL);
    assert_eq!(write_group(&f, Modify, group(&f, 3, &[(1, 4)])), OK);
    assert_eq!(write_group(&f, Modify, group(&f, 2, &[(1, 1)])), OK);
    assert_eq!(write_group(&f, Modify, group(&f, 3, &[(1, 6)])), OK);
    let f = Fixture::new();
    let entry = |dst, weights: &[(u64, i32)]| spread(&f, dst, set(&f, weights));
    for dst in [1, 2] {
        assert_eq!(f.insert(entry(dst, &[(1, 6)])), OK);
    }
    assert_eq!(f.insert(entry(3, &[(1, 5)])), FULL);
    assert_eq!(f.insert(entry(3, &[(1, 3), (2, 1)])), OK);
    // A new one shot counts in place of the old one.
    assert_eq!(f.modify(entry(2, &[(3, 5), (4, 1)])), OK);
    assert_eq!(f.modify(entry(3, &[(1, 5)])), FULL);
    assert_eq!(
        f.all("spread"),
        [entry(1, &[(1, 6)]), entry(2, &[(3, 5), (4, 1)]), entry(3, &[(1, 3), (2, 1)])]
    );
}

/// A refusal names the numbers that are possible.
#[test]
fn mc_1_and_cl_1_the_ranges_begin_with_1() {
    let f = Fixture::new();
    let message = |of| {
        let entry = PacketReplicationEngineEntry { r#type: Some(of) };
        f.update(Insert, EntityKind::PacketReplicationEngineEntry(entry)).message
    };
    for group in [0, 65_536] {
        let entry = MulticastGroupEntry { multicast_group_id: group, ..Default::default() };
        let message = message(ReplicationType::MulticastGroupEntry(entry));
        assert!(message.ends_with("expected 1 to 65535"), "{message}");
    }
    for session in [0, 32_768] {
        let entry = CloneSessionEntry { session_id: session, ..Default::default() };
        let message = message(ReplicationType::CloneSessionEntry(entry));
        assert!(message.ends_with("expected 1 to 32767"), "{message}");
    }
}

fn counter(f: &Fixture, name: &str, index: Option<i64>, data: Option<(i64, i64)>) -> CounterEntry {
    let data = data.map(|(packet_count, byte_count)| CounterData { packet_count, byte_count });
    CounterEntry { counter_id: f.counter(name), index: index.map(|index| Index { index }), data }
}

#[test]
fn c_1_to_c_3_counters() {
    let f = Fixture::new();
    let write = |kind, entry| f.code(kind, EntityKind::CounterEntry(entry));
    let read = |entry| f.read(EntityKind::CounterEntry(entry));
    assert_eq!(write(Modify, counter(&f, "seen", Some(3), Some((5, 6)))), OK);
    assert_eq!(
        read(counter(&f, "seen", Some(3), None)),
        [EntityKind::CounterEntry(counter(&f, "seen", Some(3), Some((5, 6))))]
    );
    // Unset data changes nothing.
    assert_eq!(write(Modify, counter(&f, "seen", Some(3), None)), OK);
    for kind in [Insert, Delete] {
        assert_eq!(write(kind, counter(&f, "seen", Some(3), Some((1, 1)))), INVALID);
    }
    assert_eq!(write(Modify, counter(&f, "seen", Some(-1), Some((1, 1)))), INVALID);
    assert_eq!(write(Modify, counter(&f, "seen", Some(16), Some((1, 1)))), RANGE);
    assert_eq!(write(Modify, counter(&f, "seen", Some(1), Some((-1, 1)))), INVALID);
    assert_eq!(write(Modify, CounterEntry { counter_id: 0, ..counter(&f, "seen", Some(1), None) }), INVALID);
    // C-2: all cells of one, all of all, in order.
    let all = read(counter(&f, "seen", None, None));
    assert_eq!(all.len(), 16);
    assert_eq!(all[3], EntityKind::CounterEntry(counter(&f, "seen", Some(3), Some((5, 6)))));
    assert_eq!(read(CounterEntry::default()).len(), 20);
    assert_eq!(f.read_code(EntityKind::CounterEntry(counter(&f, "seen", Some(16), None))), RANGE);
    // All cells at once; Z-10: what is not counted is 0.
    assert_eq!(write(Modify, counter(&f, "few", None, Some((7, 8)))), OK);
    assert_eq!(
        read(counter(&f, "few", Some(2), None)),
        [EntityKind::CounterEntry(counter(&f, "few", Some(2), Some((7, 0))))]
    );
    assert_eq!(write(Modify, counter(&f, "seen", None, Some((0, 0)))), OK);
    assert_eq!(
        read(counter(&f, "seen", Some(3), None)),
        [EntityKind::CounterEntry(counter(&f, "seen", Some(3), Some((0, 0))))]
    );
}

#[test]
fn c_4_and_c_5_direct_counters() {
    let f = Fixture::new();
    let entry = |mac| f.entry("aged", vec![exact(1, mac)], None);
    let of = |entry, data: Option<(i64, i64)>| {
        let data = data.map(|(packet_count, byte_count)| CounterData { packet_count, byte_count });
        EntityKind::DirectCounterEntry(DirectCounterEntry { table_entry: entry, data })
    };
    assert_eq!(f.insert(TableEntry { action: f.act("forward", &[1]), ..entry(1) }), OK);
    assert_eq!(f.code(Modify, of(Some(entry(1)), Some((4, 5)))), OK);
    assert_eq!(f.read(of(Some(entry(1)), None)), [of(Some(entry(1)), Some((4, 5)))]);
    assert_eq!(f.code(Insert, of(Some(entry(1)), Some((4, 5)))), INVALID);
    assert_eq!(f.code(Modify, of(Some(entry(2)), Some((4, 5)))), NOT_FOUND);
    assert_eq!(f.code(Modify, of(None, Some((4, 5)))), INVALID);
    // What is wrong for every entry is INVALID_ARGUMENT, whether or not the entry exists.
    assert_eq!(f.code(Modify, of(Some(entry(2)), Some((-1, 5)))), INVALID);
    assert_eq!(f.code(Modify, of(Some(f.entry("l2", vec![exact(1, 1)], None)), Some((4, 5)))), INVALID);
    assert_eq!(f.insert(f.l2(1, 1)), OK);
    assert_eq!(f.code(Modify, of(Some(f.entry("l2", vec![exact(1, 1)], None)), Some((4, 5)))), INVALID);
    // all tables.
    assert_eq!(f.read(of(Some(TableEntry::default()), None)), [of(Some(entry(1)), Some((4, 5)))]);
    assert_eq!(f.read_code(of(Some(f.entry("l2", vec![], None)), None)), INVALID);
}

/// One absent cell, group or session is an error; an absent table entry, member or group of members is none.
#[test]
fn q_8_what_reads_of_absent_objects_return() {
    let source = PROGRAM
        .replacen(
            "direct_meter<",
            "direct_counter(CounterType.packets) of_routes; direct_counter(CounterType.packets) of_acl;
            direct_meter<",
            1,
        )
        .replacen("size = 1024;", "size = 1024; counters = of_routes;", 1)
        .replacen("size = 40000;", "size = 40000; counters = of_acl;", 1);
    let f = Fixture::of(&source);
    let counter = |entry: &TableEntry| {
        let table_entry = Some(entry.clone());
        f.read_code(EntityKind::DirectCounterEntry(DirectCounterEntry { table_entry, data: None }))
    };
    let meter = |entry: &TableEntry| {
        let table_entry = Some(entry.clone());
        f.read_code(EntityKind::DirectMeterEntry(DirectMeterEntry { table_entry, ..Default::default() }))
    };
    let aged = f.entry("aged", vec![exact(1, 1)], None);
    assert_eq!((counter(&aged), meter(&aged), f.entries(aged.clone())), (NOT_FOUND, NOT_FOUND, vec![]));
    assert_eq!(f.insert(TableEntry { action: f.act("measured", &[1]), ..aged.clone() }), OK);
    assert_eq!((counter(&aged), meter(&aged)), (OK, OK));
    // All entries of a table.
    assert_eq!((counter(&f.entry("routes", vec![], None)), counter(&f.entry("acl", vec![], None))), (OK, OK));
    // A string that has no number.
    let route = f.entry("routes", vec![string(1, "red"), lpm(2, 0x0a00_0000, 8)], None);
    assert_eq!(counter(&route), NOT_FOUND);
    // Without a priority, entries of all priorities are meant, so there may be none.
    let acl = f.entry("acl", vec![exact(5, 1)], None);
    assert_eq!(counter(&acl), OK);
    assert_eq!(counter(&TableEntry { priority: 10, ..acl.clone() }), NOT_FOUND);
    assert_eq!(f.insert(TableEntry { priority: 10, action: f.act("drop_it", &[]), ..acl.clone() }), OK);
    assert_eq!(counter(&TableEntry { priority: 10, ..acl.clone() }), OK);
    assert_eq!(counter(&TableEntry { priority: 11, ..acl }), NOT_FOUND);
    let member =
        v1::ActionProfileMember { action_profile_id: f.profile("paths"), member_id: 1, action: None };
    assert_eq!(f.read(EntityKind::ActionProfileMember(member)), []);
    let group =
        v1::ActionProfileGroup { action_profile_id: f.profile("paths"), group_id: 1, ..Default::default() };
    assert_eq!(f.read(EntityKind::ActionProfileGroup(group)), []);
    assert_eq!((f.read_code(multicast(7, &[])), f.read_code(session(5, &[]))), (NOT_FOUND, NOT_FOUND));
}

const CONFIG: MeterConfig =
    MeterConfig { cir: 1_000_001, cburst: 11, pir: 3_000_000_007, pburst: 12, eburst: 0 };

#[test]
fn m_1_to_m_4_meters() {
    let f = Fixture::new();
    let meter = |index: Option<i64>, config: Option<MeterConfig>| {
        let index = index.map(|index| Index { index });
        EntityKind::MeterEntry(MeterEntry { meter_id: f.meter("rates"), index, config, counter_data: None })
    };
    assert_eq!(f.code(Modify, meter(Some(1), Some(CONFIG))), OK);
    assert_eq!(f.read(meter(Some(1), None)), [meter(Some(1), Some(CONFIG))]);
    assert_eq!(f.read(meter(Some(2), None)), [meter(Some(2), None)]);
    assert_eq!(f.read(EntityKind::MeterEntry(MeterEntry::default())).len(), 8);
    for kind in [Insert, Delete] {
        assert_eq!(f.code(kind, meter(Some(1), Some(CONFIG))), INVALID);
    }
    assert_eq!(f.code(Modify, meter(Some(8), Some(CONFIG))), RANGE);
    assert_eq!(f.code(Modify, meter(Some(-1), Some(CONFIG))), INVALID);
    for wrong in [
        MeterConfig { cir: -1, ..CONFIG },
        MeterConfig { pburst: -1, ..CONFIG },
        MeterConfig { cir: CONFIG.pir + 1, ..CONFIG },
        // M-2.
        MeterConfig { eburst: 1, ..CONFIG },
    ] {
        assert_eq!(f.code(Modify, meter(Some(1), Some(wrong))), INVALID);
    }
    assert_eq!(f.code(Modify, meter(None, Some(CONFIG))), OK);
    assert_eq!(f.read(meter(Some(7), None)), [meter(Some(7), Some(CONFIG))]);
    assert_eq!(f.code(Modify, meter(Some(7), None)), OK);
    assert_eq!(f.read(meter(Some(7), None)), [meter(Some(7), None)]);
}

#[test]
fn m_2_meters_with_a_single_rate() {
    let f = Fixture::of(
        &PROGRAM
            .replacen("meter(8, MeterType.bytes)", "@single_rate_three_color meter(8, MeterType.bytes)", 1)
            .replacen("direct_meter<bit<2>>", "@single_rate_two_color direct_meter<bit<2>>", 1),
    );
    let meter = |config| {
        let index = Some(Index { index: 1 });
        EntityKind::MeterEntry(MeterEntry { meter_id: f.meter("rates"), index, config, counter_data: None })
    };
    const SINGLE: MeterConfig = MeterConfig { cir: 1000, cburst: 300, pir: 1000, pburst: 300, eburst: 200 };
    assert_eq!(f.code(Modify, meter(Some(SINGLE))), OK);
    assert_eq!(f.read(meter(None)), [meter(Some(SINGLE))]);
    for wrong in [
        MeterConfig { eburst: -1, ..SINGLE },
        MeterConfig { pir: 1001, ..SINGLE },
        MeterConfig { pburst: 301, ..SINGLE },
    ] {
        assert_eq!(f.code(Modify, meter(Some(wrong))), INVALID);
    }
    // RFC 2697 without refill: 300 bytes are green and 200 yellow.
    assert_eq!(f.code(Modify, meter(Some(MeterConfig { cir: 0, pir: 0, ..SINGLE }))), OK);
    let switch = f.switch.control().switch().clone();
    let mut worker = switch.worker(p4jet_embed::EngineKind::Jit, 0).unwrap();
    let counted = || match &f.read(EntityKind::MeterEntry(MeterEntry {
        meter_id: f.meter("rates"),
        index: Some(Index { index: 1 }),
        counter_data: Some(v1::MeterCounterData::default()),
        ..Default::default()
    }))[..]
    {
        [EntityKind::MeterEntry(entry)] => entry.counter_data.clone().unwrap(),
        other => panic!("{other:?}"),
    };
    let of = |packets: i64| Some(CounterData { packet_count: packets, byte_count: 100 * packets });
    // M-5: the first request begins to count.
    let colours =
        |green, yellow, red| v1::MeterCounterData { green: of(green), yellow: of(yellow), red: of(red) };
    assert_eq!(counted(), colours(0, 0, 0));
    (0..9).for_each(|_| drop(worker.process_one(1, &[0; 100])));
    assert_eq!(counted(), colours(3, 2, 4));
    // Two colours: no yellow.
    let entry = f.entry("aged", vec![exact(1, 0)], None);
    let direct = |config, counter_data| {
        EntityKind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(entry.clone()),
            config,
            counter_data,
        })
    };
    assert_eq!(f.insert(TableEntry { action: f.act("measured", &[1]), ..entry.clone() }), OK);
    assert_eq!(f.code(Modify, direct(Some(SINGLE), None)), INVALID);
    const TWO: MeterConfig = MeterConfig { cir: 0, cburst: 4, pir: 0, pburst: 4, eburst: 0 };
    assert_eq!(f.code(Modify, direct(Some(TWO), None)), OK);
    let zero = Some(v1::MeterCounterData::default());
    let asked = TableEntry { meter_counter_data: zero.clone(), ..entry.clone() };
    let counted = || f.entries(asked.clone())[0].meter_counter_data.clone().unwrap();
    assert_eq!(counted(), colours(0, 0, 0));
    (0..9).for_each(|_| drop(worker.process_one(2, &[0; 100])));
    assert_eq!(counted(), colours(4, 0, 5));
    match &f.read(direct(None, zero.clone()))[..] {
        [EntityKind::DirectMeterEntry(direct)] => assert_eq!(direct.counter_data, Some(counted())),
        other => panic!("{other:?}"),
    }
    // They can be set to 0, and to nothing else. E-52: an update of the entry does it, too.
    assert_eq!(f.code(Modify, direct(Some(TWO), Some(counted()))), INVALID);
    assert_eq!(f.code(Modify, direct(Some(TWO), zero.clone())), OK);
    assert_eq!(counted(), colours(0, 0, 0));
    (0..2).for_each(|_| drop(worker.process_one(2, &[0; 100])));
    assert_eq!(counted(), colours(2, 0, 0));
    assert_eq!(f.modify(TableEntry { meter_config: Some(TWO), ..entry.clone() }), OK);
    assert_eq!(counted(), colours(2, 0, 0));
    assert_eq!(f.modify(TableEntry { meter_counter_data: zero, ..entry.clone() }), OK);
    assert_eq!(counted(), colours(0, 0, 0));
}

#[test]
fn m_7_and_z_11_new_rates_start_with_full_buckets_and_counts_with_a_request() {
    let f = Fixture::new();
    let mut worker = f.worker(0);
    let meter = |config, counter_data| {
        let index = Some(Index { index: 1 });
        EntityKind::MeterEntry(MeterEntry { meter_id: f.meter("rates"), index, config, counter_data })
    };
    let counted = || match &f.read(meter(None, Some(v1::MeterCounterData::default())))[..] {
        [EntityKind::MeterEntry(entry)] => {
            let data = entry.counter_data.clone().unwrap();
            [data.green, data.yellow, data.red].map(|count| count.unwrap().packet_count)
        }
        other => panic!("{other:?}"),
    };
    let mut send = |packets| (0..packets).for_each(|_| drop(worker.process_one(1, &[0; 100])));
    let rates = |cburst, pburst| Some(MeterConfig { cir: 0, cburst, pir: 0, pburst, eburst: 0 });
    assert_eq!(f.code(Modify, meter(rates(300, 500), None)), OK);
    // Z-11: these are not counted.
    send(2);
    assert_eq!(counted(), [0, 0, 0]);
    send(7);
    assert_eq!(counted(), [1, 2, 4]);
    // M-7.
    assert_eq!(f.code(Modify, meter(rates(200, 600), None)), OK);
    send(9);
    assert_eq!(counted(), [1 + 2, 2 + 4, 4 + 3]);
    assert_eq!(f.code(Modify, meter(None, None)), OK);
    send(9);
    assert_eq!(counted()[1..], [6, 7], "without rates all packets are green");
}

#[test]
fn m_6_direct_meters() {
    let f = Fixture::new();
    let entry = |mac| f.entry("aged", vec![exact(1, mac)], None);
    let of = |entry, config| {
        EntityKind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(entry),
            config,
            counter_data: None,
        })
    };
    assert_eq!(f.insert(TableEntry { action: f.act("measured", &[1]), ..entry(1) }), OK);
    assert_eq!(f.code(Modify, of(entry(1), Some(CONFIG))), OK);
    assert_eq!(f.read(of(entry(1), None)), [of(entry(1), Some(CONFIG))]);
    assert_eq!(f.code(Modify, of(entry(2), Some(CONFIG))), NOT_FOUND);
    assert_eq!(f.code(Modify, of(entry(2), Some(MeterConfig { cir: -1, ..CONFIG }))), INVALID);
    assert_eq!(f.code(Modify, of(f.entry("l2", vec![exact(1, 1)], None), Some(CONFIG))), INVALID);
    assert_eq!(f.code(Delete, of(entry(1), Some(CONFIG))), INVALID);
    assert_eq!(f.code(Modify, of(entry(1), None)), OK);
    assert_eq!(f.read(of(TableEntry::default(), None)), [of(entry(1), None)]);
}

#[test]
fn e_31_and_e_32_counter_and_meter_of_the_default_entry() {
    let f = Fixture::new();
    let default = TableEntry { is_default_action: true, ..f.entry("aged", Vec::new(), None) };
    let forward = f.act("forward", &[1]);
    let data = |count| Some(CounterData { byte_count: 10 * count, packet_count: count });
    let written = TableEntry {
        action: forward.clone(),
        meter_config: Some(CONFIG),
        counter_data: data(7),
        ..default.clone()
    };
    let pattern = TableEntry {
        meter_config: Some(MeterConfig::default()),
        counter_data: Some(CounterData::default()),
        ..default.clone()
    };
    let read = || f.entries(pattern.clone());
    let mut left_out = written.clone();
    (left_out.meter_config, left_out.counter_data) = (None, data(0));
    assert_eq!(f.modify(TableEntry { action: forward.clone(), ..default.clone() }), OK);
    assert_eq!(read(), [left_out.clone()]);
    assert_eq!(f.modify(written.clone()), OK);
    assert_eq!(read(), std::slice::from_ref(&written));
    // Not requested, not shown.
    assert_eq!(f.entries(default.clone()), [TableEntry { action: forward.clone(), ..default.clone() }]);
    // C-4, M-6.
    let counter = |data| {
        let table_entry = Some(default.clone());
        EntityKind::DirectCounterEntry(DirectCounterEntry { table_entry, data })
    };
    let meter = |config| {
        let table_entry = Some(default.clone());
        EntityKind::DirectMeterEntry(DirectMeterEntry { table_entry, config, counter_data: None })
    };
    assert_eq!(f.read(counter(None)), [counter(data(7))]);
    assert_eq!(f.read(meter(None)), [meter(Some(CONFIG))]);
    assert_eq!(f.code(Modify, counter(data(8))), OK);
    assert_eq!(f.code(Modify, meter(None)), OK);
    assert_eq!(read(), [TableEntry { meter_config: None, counter_data: data(8), ..written.clone() }]);
    // reads of all entries have no default entry.
    assert_eq!(f.read(EntityKind::DirectCounterEntry(DirectCounterEntry::default())), []);
    // The meter of an action that is given alone is unset, its counter stays.
    assert_eq!(f.modify(TableEntry { counter_data: None, ..written.clone() }), OK);
    assert_eq!(f.modify(TableEntry { action: forward, ..default.clone() }), OK);
    assert_eq!(read(), [TableEntry { counter_data: data(8), ..left_out.clone() }]);
    // A dump has them, and a batch that is rolled back leaves them.
    assert_eq!(f.modify(written.clone()), OK);
    let dump = f.switch.control().dump(true);
    let wrong = update(Insert, EntityKind::TableEntry(TableEntry::default()));
    let back = update(Modify, EntityKind::TableEntry(default.clone()));
    let errors = f.write(vec![back, wrong], Atomicity::RollbackOnError).errors.unwrap();
    assert_eq!(errors[0].canonical_code, ABORTED);
    assert_eq!(read(), std::slice::from_ref(&written));
    assert_eq!(f.modify(default.clone()), OK);
    let without_action = TableEntry { action: f.act("NoAction", &[]), ..left_out };
    assert_eq!(read(), [without_action]);
    assert_eq!(f.switch.restore(&dump), Ok(None));
    assert_eq!(read(), [written]);
    // Runtime commands reset them, too.
    let reset = vec![p4jet_control::Update::Reset];
    assert!(f.switch.write(reset, p4jet_control::Atomicity::AllOrNothing).0.in_effect);
    assert_eq!((f.read(counter(None)), f.read(meter(None))), (vec![counter(data(0))], vec![meter(None)]));
}

fn bits(value: u64) -> P4Data {
    P4Data { data: Some(DataValue::Bitstring(bytes(value))) }
}

#[test]
fn rg_1_to_rg_3_registers() {
    let f = Fixture::new();
    let register = |name: &str, index: Option<i64>, data| {
        let index = index.map(|index| Index { index });
        EntityKind::RegisterEntry(RegisterEntry { register_id: f.register(name), index, data })
    };
    assert_eq!(f.code(Modify, register("stamps", Some(1), Some(bits(77)))), OK);
    assert_eq!(f.read(register("stamps", Some(1), None)), [register("stamps", Some(1), Some(bits(77)))]);
    assert_eq!(f.read(register("stamps", None, None)).len(), 8);
    assert_eq!(f.read(EntityKind::RegisterEntry(RegisterEntry::default())).len(), 12);
    for kind in [Insert, Delete] {
        assert_eq!(f.code(kind, register("stamps", Some(1), Some(bits(7)))), INVALID);
    }
    assert_eq!(f.code(Modify, register("stamps", Some(-1), Some(bits(7)))), INVALID);
    assert_eq!(f.code(Modify, register("stamps", Some(8), Some(bits(7)))), RANGE);
    assert_eq!(f.code(Modify, register("stamps", Some(1), None)), INVALID);
    assert_eq!(f.code(Modify, register("stamps", Some(1), Some(bits(1 << 48)))), RANGE);
    assert_eq!(f.code(Modify, register("stamps", None, Some(bits(9)))), OK);
    assert_eq!(f.read(register("stamps", Some(7), None)), [register("stamps", Some(7), Some(bits(9)))]);
    // RG-2: a struct, G-20: all its members in order.
    let cell = |members| Some(P4Data { data: Some(DataValue::Struct(P4StructLike { members })) });
    let whole = cell(vec![bits(5), bits(0x0102_0304_0506)]);
    assert_eq!(f.code(Modify, register("cells", Some(2), whole.clone())), OK);
    assert_eq!(f.read(register("cells", Some(2), None)), [register("cells", Some(2), whole)]);
    assert_eq!(f.code(Modify, register("cells", Some(2), cell(vec![bits(5)]))), INVALID);
    assert_eq!(f.code(Modify, register("cells", Some(2), Some(bits(5)))), INVALID);
}

/// The program and the control plane agree about the bits of a struct.
#[test]
fn rg_2_structs_have_the_bits_that_the_program_gives_them() {
    let f = Fixture::new();
    let switch = f.switch.control().switch().clone();
    let mut worker = switch.worker(p4jet_embed::EngineKind::Jit, 0).unwrap();
    let register = |data| {
        let index = Some(Index { index: 1 });
        EntityKind::RegisterEntry(RegisterEntry { register_id: f.register("cells"), index, data })
    };
    let cell = |port, mac| {
        let members = vec![bits(port), bits(mac)];
        Some(P4Data { data: Some(DataValue::Struct(P4StructLike { members })) })
    };
    assert_eq!(f.code(Modify, register(cell(5, 1))), OK);
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9, 9];
    frame.resize(60, 0);
    worker.process_one(3, &frame);
    // The program writes the source address, and leaves the port.
    assert_eq!(f.read(register(None)), [register(cell(5, 0x0203_0405_0607))]);
}

#[test]
fn vs_1_to_vs_4_value_sets() {
    let f = Fixture::new();
    let set = |name: &str, members: Vec<Vec<v1::FieldMatch>>| {
        let members = members.into_iter().map(|r#match| ValueSetMember { r#match }).collect();
        EntityKind::ValueSetEntry(ValueSetEntry { value_set_id: f.value_set(name), members })
    };
    let known = vec![vec![ternary(1, 6, 0xff), exact(2, 1)], vec![exact(2, 2)]];
    assert_eq!(f.code(Modify, set("known", known.clone())), OK);
    assert_eq!(f.read(set("known", vec![])), [set("known", known.clone())]);
    for kind in [Insert, Delete] {
        assert_eq!(f.code(kind, set("known", known.clone())), INVALID);
    }
    let numbers = |n: u64| (1..=n).map(|n| vec![exact(2, n)]).collect::<Vec<_>>();
    assert_eq!(f.code(Modify, set("known", numbers(5))), FULL);
    assert_eq!(f.code(Modify, set("known", vec![vec![exact(2, 1)], vec![exact(2, 1)]])), EXISTS);
    assert_eq!(f.code(Modify, set("known", vec![vec![lpm(2, 1, 3)]])), INVALID);
    // Z-12.
    assert_eq!(f.code(Modify, set("kinds", vec![vec![exact(1, 1), exact(1, 2)]])), INVALID);
    // The only field of a set of numbers has no name.
    let message = |key| f.update(Modify, set("kinds", vec![vec![key]])).message;
    for (key, why) in [
        (exact(1, 0x01_1234), "match on field 1: the value 0x011234 is too large"),
        (lpm(1, 1, 3), "match on field 1 (exact): found an lpm match"),
        (exact(2, 1), "has no key field with the id 2; fields: 1"),
    ] {
        let found = message(key);
        assert!(found.contains(why) && !found.contains("``"), "{found}");
    }
    assert_eq!(f.read(set("known", vec![])), [set("known", known)]);
    assert_eq!(f.code(Modify, set("known", numbers(4))), OK);
    assert_eq!(f.code(Modify, set("kinds", vec![vec![exact(1, 0x86dd)]])), OK);
    assert_eq!(f.read(EntityKind::ValueSetEntry(ValueSetEntry::default())).len(), 2);
    assert_eq!(f.code(Modify, set("known", vec![])), OK);
    assert_eq!(f.read(set("known", vec![])), [set("known", vec![])]);
}

fn replicas(of: &[(u32, u32)]) -> Vec<Replica> {
    let replica = |(port, instance): &(u32, u32)| Replica {
        port_kind: Some(PortKind::Port(bytes((*port).into()))),
        instance: *instance,
        backup_replicas: Vec::new(),
    };
    of.iter().map(replica).collect()
}

fn pre(of: ReplicationType) -> EntityKind {
    EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) })
}

fn multicast(id: u32, of: &[(u32, u32)]) -> EntityKind {
    pre(ReplicationType::MulticastGroupEntry(MulticastGroupEntry {
        multicast_group_id: id,
        replicas: replicas(of),
        metadata: Default::default(),
    }))
}

fn session(id: u32, of: &[(u32, u32)]) -> EntityKind {
    pre(ReplicationType::CloneSessionEntry(CloneSessionEntry {
        session_id: id,
        replicas: replicas(of),
        ..CloneSessionEntry::default()
    }))
}

#[test]
fn mc_1_to_mc_7_multicast_groups() {
    let f = Fixture::new();
    assert_eq!(f.code(Insert, multicast(0, &[])), INVALID);
    assert_eq!(f.code(Insert, multicast(65_536, &[])), RANGE);
    assert_eq!(f.code(Modify, multicast(7, &[])), NOT_FOUND);
    assert_eq!(f.code(Delete, multicast(7, &[])), NOT_FOUND);
    // MC-3, MC-4, TR-11; MC-5: the port need not exist.
    for wrong in [&[(1, 1), (1, 1)][..], &[(1, 65_536)], &[(512, 1)]] {
        assert_eq!(f.code(Insert, multicast(7, wrong)), INVALID);
    }
    let group = multicast(7, &[(2, 1), (1, 1), (255, 0), (2, 0)]);
    assert_eq!(f.code(Insert, group.clone()), OK);
    assert_eq!(f.code(Insert, group.clone()), EXISTS);
    assert_eq!(f.read(multicast(0, &[])), [group]);
    let copies = || f.switch.control().switch().state().destinations().groups.get(7).unwrap().clone();
    assert_eq!(
        copies().replicas().map(|r| (r.port, r.replication_id)).collect::<Vec<_>>(),
        [(2, 1), (1, 1), (255, 0), (2, 0)]
    );
    // MC-2: the kind of port; MC-7: metadata.
    let old = Replica { port_kind: Some(PortKind::EgressPort(3)), instance: 1, backup_replicas: Vec::new() };
    let entry = MulticastGroupEntry { multicast_group_id: 7, replicas: vec![old], metadata: "m".into() };
    let entry = pre(ReplicationType::MulticastGroupEntry(entry));
    assert_eq!(f.code(Modify, entry.clone()), OK);
    assert_eq!(f.read(multicast(7, &[])), [entry]);
    let unset = MulticastGroupEntry {
        multicast_group_id: 8,
        replicas: vec![Replica::default()],
        metadata: Default::default(),
    };
    assert_eq!(f.code(Insert, pre(ReplicationType::MulticastGroupEntry(unset))), INVALID);
    assert_eq!(f.code(Delete, multicast(7, &[])), OK);
    //
    assert_eq!(f.read_code(multicast(7, &[])), NOT_FOUND);
    assert!(f.switch.control().switch().state().with_multicast(|m| m.nodes().is_empty()));
}

#[test]
fn mc_10_groups_of_commands_are_read() {
    use p4jet_control::Update;
    let f = Fixture::new();
    let node = Update::CreateNode { replication_id: 5, ports: [1, 2].into(), lags: [].into() };
    let updates = vec![
        Update::CreateMulticastGroup(3),
        node,
        Update::Associate { group: 3, node: p4jet_control::Ref::Made(1) },
        Update::SetSession { session: 6, to: p4jet_control::CloneDestination::Port(4), bytes_max: Some(100) },
    ];
    assert!(f.switch.write(updates, p4jet_control::Atomicity::AllOrNothing).0.in_effect);
    assert_eq!(f.read(multicast(0, &[])), [multicast(3, &[(1, 5), (2, 5)])]);
    let EntityKind::PacketReplicationEngineEntry(shown) = f.read(session(6, &[])).remove(0) else { panic!() };
    let Some(ReplicationType::CloneSessionEntry(shown)) = shown.r#type else { panic!() };
    assert_eq!((shown.replicas, shown.packet_length_bytes), (replicas(&[(4, 0)]), 100));
    assert_eq!(f.code(Modify, multicast(3, &[(7, 1)])), OK);
    assert_eq!(f.read(multicast(3, &[])), [multicast(3, &[(7, 1)])]);
    // Z-18: what a command changes has lost its metadata.
    let tagged =
        MulticastGroupEntry { multicast_group_id: 3, replicas: replicas(&[(7, 1)]), metadata: "m".into() };
    assert_eq!(f.code(Modify, pre(ReplicationType::MulticastGroupEntry(tagged))), OK);
    let (node, group) =
        f.switch.control().switch().state().with_multicast(|m| (*m.nodes().keys().next().unwrap(), 3));
    let dissociate = Update::Dissociate { group, node: node.into() };
    assert!(f.switch.write(vec![dissociate], p4jet_control::Atomicity::AllOrNothing).0.in_effect);
    assert_eq!(f.read(multicast(3, &[])), [multicast(3, &[])]);
}

#[test]
fn cl_1_to_cl_6_clone_sessions() {
    let f = Fixture::new();
    for wrong in [0, 32_768] {
        assert_eq!(f.code(Insert, session(wrong, &[])), INVALID);
    }
    assert_eq!(f.code(Delete, session(5, &[])), NOT_FOUND);
    assert_eq!(f.code(Insert, session(5, &[(1, 1), (2, 2)])), OK);
    assert_eq!(f.code(Insert, session(5, &[(1, 1), (2, 2)])), EXISTS);
    assert_eq!(f.read(session(0, &[])), [session(5, &[(1, 1), (2, 2)])]);
    let of = |class_of_service, packet_length_bytes| {
        pre(ReplicationType::CloneSessionEntry(CloneSessionEntry {
            session_id: 5,
            replicas: replicas(&[(3, 3)]),
            class_of_service,
            packet_length_bytes,
        }))
    };
    assert_eq!(f.code(Modify, of(8, 0)), INVALID);
    assert_eq!(f.code(Modify, of(0, -1)), INVALID);
    let port = |bytes: &'static [u8]| Some(PortKind::Port(bytes.into()));
    for (port_kind, backup, why) in [
        (None, None, "replica 2: it has no port"),
        (port(&[]), None, "replica 2: its port is empty"),
        (port(&[1, 0, 0, 0, 0]), None, "replica 2: its port has more than 32 bits"),
        (port(&[1]), Some(&[][..]), "backup 1 of replica 2: its port is empty"),
        (port(&[1]), Some(&[1, 0, 0, 0, 0][..]), "backup 1 of replica 2: its port has more than 32 bits"),
    ] {
        let backup = backup.map(|port| v1::BackupReplica { port: port.into(), instance: 1 });
        let mut replicas = replicas(&[(3, 3), (1, 1)]);
        (replicas[1].port_kind, replicas[1].backup_replicas) = (port_kind, backup.into_iter().collect());
        let entry = CloneSessionEntry { session_id: 5, replicas, ..CloneSessionEntry::default() };
        let error = f.update(Modify, pre(ReplicationType::CloneSessionEntry(entry)));
        assert_eq!((error.canonical_code, error.message), (INVALID, format!("clone session 5: {why}")));
    }
    assert_eq!(f.code(Modify, of(7, 128)), OK);
    assert_eq!(f.read(session(5, &[])), [of(7, 128)]);
    let sessions = f.switch.control().switch().state().destinations();
    let set = sessions.sessions.get(5).unwrap();
    assert_eq!((set.class_of_service, set.bytes_max, set.replicas.len()), (7, Some(128), 1));
    assert_eq!(f.code(Delete, session(5, &[])), OK);
    assert_eq!(f.read_code(session(5, &[])), NOT_FOUND);
    let neither = EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: None });
    assert_eq!(f.code(Insert, neither), INVALID);
}

#[test]
fn dg_1_and_dg_9_digests_are_switched_on_and_off() {
    let f = Fixture::new();
    let digest = |size| {
        let config = DigestConfig { max_timeout_ns: 5, max_list_size: size, ack_timeout_ns: 7 };
        EntityKind::DigestEntry(DigestEntry { digest_id: f.digest("learned_t"), config: Some(config) })
    };
    let all = || f.read(EntityKind::DigestEntry(DigestEntry::default()));
    assert_eq!((f.code(Modify, digest(1)), f.code(Delete, digest(1))), (NOT_FOUND, NOT_FOUND));
    let absent = f.try_read(digest(1)).unwrap_err();
    assert_eq!(absent.canonical_code, NOT_FOUND);
    assert_eq!(absent.message, "`learned_t` has no DigestEntry: INSERT it first");
    assert_eq!((f.code(Insert, digest(1)), f.code(Insert, digest(2))), (OK, EXISTS));
    let negative = f.update(Modify, digest(-1));
    assert_eq!(negative.canonical_code, INVALID);
    assert_eq!(negative.message, "`learned_t`: `config.max_list_size` is -1, expected 0 or more");
    assert_eq!(f.code(Modify, digest(3)), OK);
    assert_eq!(all(), [digest(3)]);
    assert_eq!(f.code(Delete, digest(0)), OK);
    assert!(all().is_empty());
    let unset = EntityKind::DigestEntry(DigestEntry { digest_id: f.digest("learned_t"), config: None });
    assert_eq!(f.code(Insert, unset), OK);
    assert_eq!(all().len(), 1);
}

/// Fields of a read that do not select entities, and would be wrong in a write.
#[test]
fn q_13_other_fields_of_a_read_are_ignored() {
    let f = Fixture::new();
    assert_eq!(f.insert(TableEntry { metadata: "m".into(), ..f.l2(1, 1) }), OK);
    let pattern = TableEntry { is_const: true, idle_timeout_ns: -5, ..f.entry("l2", vec![], None) };
    assert_eq!(f.entries(pattern).len(), 1);
    // These ask for more, and select nothing.
    let aged = f.entry("aged", vec![exact(1, 1)], f.act("measured", &[1]));
    assert_eq!(f.insert(aged.clone()), OK);
    let asked = TableEntry {
        counter_data: Some(CounterData { packet_count: -7, byte_count: 9 }),
        meter_config: Some(MeterConfig { cir: -1, ..CONFIG }),
        meter_counter_data: Some(v1::MeterCounterData::default()),
        time_since_last_hit: Some(v1::IdleTimeout { elapsed_ns: 9 }),
        ..f.entry("aged", vec![], None)
    };
    let found = f.entries(asked);
    assert_eq!(found[0].counter_data, Some(CounterData::default()));
    assert!(found[0].meter_config.is_none() && found[0].meter_counter_data.is_some());
    assert!(found[0].time_since_last_hit.is_some());
    let wrong = counter(&f, "seen", Some(1), Some((-1, 1)));
    assert_eq!(
        f.read(EntityKind::CounterEntry(wrong)),
        [EntityKind::CounterEntry(counter(&f, "seen", Some(1), Some((0, 0))))]
    );
    let meter = MeterEntry {
        meter_id: f.meter("rates"),
        config: Some(MeterConfig { cir: -1, ..CONFIG }),
        ..MeterEntry::default()
    };
    assert_eq!(f.read(EntityKind::MeterEntry(meter)).len(), 8);
    let register = RegisterEntry {
        register_id: f.register("stamps"),
        index: Some(Index { index: 1 }),
        data: Some(bits(1 << 60)),
    };
    assert_eq!(f.read(EntityKind::RegisterEntry(register)).len(), 1);
    assert_eq!(write_member(&f, Insert, member(&f, 1, 1)), OK);
    assert_eq!(f.read(EntityKind::ActionProfileMember(member(&f, 1, 4000))).len(), 1);
    assert_eq!(write_group(&f, Insert, group(&f, 1, &[(1, 1)])), OK);
    assert_eq!(f.read(EntityKind::ActionProfileGroup(group(&f, 1, &[(77, -1)]))).len(), 1);
    assert_eq!(f.code(Insert, multicast(7, &[(1, 1)])), OK);
    assert_eq!(f.read(multicast(7, &[(4000, 1), (4000, 1)])), [multicast(7, &[(1, 1)])]);
    let set = ValueSetEntry {
        value_set_id: f.value_set("known"),
        members: vec![ValueSetMember { r#match: vec![lpm(9, 1, 1)] }],
    };
    assert_eq!(f.read(EntityKind::ValueSetEntry(set)).len(), 1);
    let digest_id = f.digest("learned_t");
    let config = Some(DigestConfig { max_list_size: -1, ..DigestConfig::default() });
    assert_eq!(f.code(Insert, EntityKind::DigestEntry(DigestEntry { digest_id, config: None })), OK);
    assert_eq!(f.read(EntityKind::DigestEntry(DigestEntry { digest_id, config })).len(), 1);
}

#[test]
fn x_1_there_are_no_externs() {
    let f = Fixture::new();
    let of =
        |extern_type_id| EntityKind::ExternEntry(v1::ExternEntry { extern_type_id, ..Default::default() });
    assert_eq!((f.code(Insert, of(0x81)), f.code(Insert, of(0x12))), (UNIMPLEMENTED, INVALID));
    assert!(f.read(of(0)).is_empty());
    assert_eq!((f.read_code(of(0x81)), f.read_code(of(5))), (UNIMPLEMENTED, INVALID));
}

#[test]
fn w_14_without_packets_to_hold_the_batch_is_refused() {
    let f = Fixture::new();
    let updates = vec![update(Insert, EntityKind::TableEntry(f.l2(1, 1)))];
    let written = f.write(updates, Atomicity::DataplaneAtomic);
    assert_eq!(written.refused.unwrap().code as i32, UNIMPLEMENTED);
    assert!(f.all("l2").is_empty());
}

/// A state file keeps everything that a client wrote.
#[test]
fn a_dump_keeps_what_clients_wrote() {
    let f = Fixture::new();
    for id in 1..4 {
        assert_eq!(write_member(&f, Insert, member(&f, 10 * id, id.into())), OK);
    }
    assert_eq!(write_group(&f, Insert, group(&f, 4, &[(30, 1), (10, 2)])), OK);
    assert_eq!(f.insert(spread(&f, 1, TableActionType::ActionProfileGroupId(4))), OK);
    assert_eq!(f.insert(f.entry("counted", vec![exact(1, 1)], act(set(&f, &[(2, 1), (1, 2)])))), OK);
    assert_eq!(f.insert(TableEntry { metadata: "x".into(), ..f.l2(1, 1) }), OK);
    assert_eq!(f.code(Insert, multicast(3, &[(2, 1), (1, 1)])), OK);
    assert_eq!(f.code(Insert, session(3, &[(2, 1), (1, 1)])), OK);
    let patterns = || {
        let table = EntityKind::TableEntry(TableEntry::default());
        let group = EntityKind::ActionProfileGroup(ActionProfileGroup::default());
        let member = EntityKind::ActionProfileMember(ActionProfileMember::default());
        vec![table, member, group, multicast(0, &[]), session(0, &[])]
    };
    let read = |f: &Fixture| patterns().into_iter().map(|p| f.read(p)).collect::<Vec<_>>();
    let before = read(&f);
    let dump = f.switch.dump(false);
    let other = Fixture::new();
    other.switch.restore(&dump).unwrap();
    assert_eq!(read(&other), before);
    assert_eq!(other.switch.dump(false), dump);
}
