//! Typed updates.

use crate::common::{control, set_up};
use p4jet_control::schema::REPLICAS_MAX;
use p4jet_control::{
    Act, Atomicity, Cell, CloneDestination, Control, ControlError, Entity, EntryKey, EntryRef, NamedUpdate,
    ObjectKind, Queue, QueueUpdate, Ref, Replica, Selector, SharedControl, Update,
};
use p4jet_externs::CounterValue;
use p4jet_tables::{Action, KeyMatch};

/// No journal here has runtime commands.
fn no_commands(_: &Control, line: &str) -> Result<Option<Update>, ControlError> {
    panic!("{line}")
}

fn out(control: &Control, table: &str, port: u32) -> Act {
    let table = control.schema().table(table).unwrap();
    Act::Action(Action { action: control.schema().action(table, "out").unwrap(), data: vec![port.into()] })
}

fn l2(control: &Control, value: u32, port: u32) -> Update {
    let table = control.schema().table("l2").unwrap();
    let key = vec![KeyMatch::Exact(value.into())];
    Update::Insert { table, key, priority: 0, act: out(control, "l2", port) }
}

/// An entry of a table with a priority.
fn fixed_entry(control: &Control, value: u32) -> Update {
    let table = control.schema().table("acl").unwrap();
    let key = vec![
        KeyMatch::Ternary { value: value.into(), mask: value.into() },
        KeyMatch::Range { lo: 1u32.into(), hi: 9u32.into() },
        KeyMatch::Optional(None),
        KeyMatch::Exact(value.into()),
    ];
    let act = if value == 5 { deny(control, "acl") } else { out(control, "acl", 1) };
    Update::Insert { table, key, priority: value, act }
}

fn deny(control: &Control, table: &str) -> Act {
    let table = control.schema().table(table).unwrap();
    Act::Action(Action { action: control.schema().action(table, "deny").unwrap(), data: Vec::new() })
}

/// A member, a group with it, and an entry that names the group: each names what the updates before it make.
fn group_with_member(control: &Control) -> Vec<Update> {
    let schema = control.schema();
    let (profile, table) = (schema.profile("ecmp").unwrap(), schema.table("route").unwrap());
    let Act::Action(action) = out(control, "route", 1) else { unreachable!() };
    let any = |width: u32| KeyMatch::Ternary { value: width.into(), mask: width.into() };
    vec![
        Update::CreateMember { profile, action },
        Update::CreateGroup { profile },
        Update::AddToGroup { profile, group: Ref::Made(1), member: Ref::Made(0) },
        Update::Insert { table, key: vec![any(0)], priority: 7, act: Act::Group(Ref::Made(1)) },
        Update::SetDefault { table, act: Act::Member(Ref::Made(0)) },
        Update::Delete { table, entry: EntryRef::Handle(Ref::Made(3)) },
    ]
}

/// Everything that is set, with the generations of handles and the handles of parser value sets.
fn dump(control: &Control) -> String {
    let sets = control.schema().names(ObjectKind::ValueSet).sorted().map(p4jet_ir::TableId);
    let sets = sets.map(|set| control.switch().table(set).entries().collect::<Vec<_>>());
    format!("{}{:?}", control.dump(true), sets.collect::<Vec<_>>())
}

fn refused(control: &Control, update: Update) -> ControlError {
    let before = dump(control);
    let mut written = control.write(vec![update], Atomicity::AllOrNothing);
    assert!(!written.in_effect);
    assert_eq!(dump(control), before);
    written.results.remove(0).unwrap_err()
}

#[test]
fn updates_refer_to_objects_of_their_batch() {
    for atomicity in [Atomicity::AllOrNothing, Atomicity::ContinueOnError] {
        let control = control();
        let written = control.write(group_with_member(&control), atomicity);
        let results: Vec<_> = written.results.into_iter().map(Result::unwrap).collect();
        assert_eq!(results, [Some(0), Some(0), None, Some(0), None, None]);
        let route = control.schema().table("route").unwrap();
        assert_eq!(control.default_action(route), Some(Action::member(0)));
    }
    let control = control();
    let profile = control.schema().profile("ecmp").unwrap();
    let error = refused(&control, Update::DeleteMember { profile, member: Ref::Made(3) });
    assert_eq!(
        error.message,
        "update 0 of the batch refers to update 3, which is not an earlier one: expected a handle, because no update \
         comes before it"
    );
}

#[test]
fn a_refused_update_ends_a_batch_or_is_left_out() {
    let batch = |control: &Control| vec![l2(control, 1, 2), l2(control, 1, 3), l2(control, 2, 4)];
    let codes = |results: Vec<Result<_, ControlError>>| {
        results.into_iter().map(|result| result.map_err(|error| error.code.to_string())).collect::<Vec<_>>()
    };
    let one = control();
    let before = dump(&one);
    let written = one.write(batch(&one), Atomicity::AllOrNothing);
    assert!(!written.in_effect);
    let aborted = || Err("ABORTED".to_string());
    assert_eq!(codes(written.results), [aborted(), Err("DUPLICATE_ENTRY".into()), aborted()]);
    assert_eq!(dump(&one), before);
    let written = one.write(batch(&one), Atomicity::ContinueOnError);
    assert!(written.in_effect);
    let results = codes(written.results);
    assert_eq!((&results[1], results.len()), (&Err("DUPLICATE_ENTRY".into()), 3));
    assert!(results[0].is_ok() && results[2].is_ok());
    assert_eq!(one.switch().table(one.schema().table("l2").unwrap()).len(), 2);
}

#[test]
fn entries_by_key_and_their_cells() {
    let control = control();
    let table = control.schema().table("l2").unwrap();
    let counter = control.schema().counter("hits").unwrap();
    let by_key =
        || EntryRef::Key(Box::new(EntryKey { key: vec![KeyMatch::Exact(9u32.into())], priority: 0 }));
    let value = CounterValue { packets: 3, bytes: 200 };
    let batch = vec![
        l2(&control, 9, 1),
        Update::Modify { table, entry: by_key(), act: out(&control, "l2", 6) },
        Update::SetTimeout { table, entry: by_key(), timeout_ms: 5000 },
        Update::WriteCounter { counter, cell: Cell::Entry(by_key()), value },
    ];
    let written = control.write(batch, Atomicity::AllOrNothing);
    assert!(written.in_effect, "{:?}", written.results);
    let page = control.read(&Selector::Entry(table, 0), 0, 1).unwrap();
    let [Entity::Entry(entry)] = &page.entities[..] else { panic!("{page:?}") };
    assert_eq!(entry.counters, [(counter, value)]);
    assert_eq!(entry.action.data, [6u32.into()]);
    assert_eq!(entry.life.map(|life| life.timeout_ms), Some(5000));
    assert!(
        control.write(vec![Update::Delete { table, entry: by_key() }], Atomicity::AllOrNothing).in_effect
    );
    let error = refused(&control, Update::Delete { table, entry: by_key() });
    assert_eq!((&*error.code, error.field.as_deref()), ("BAD_MATCH_KEY", Some("key")));
    assert_eq!(error.entity.as_deref(), Some("ingress.l2"));
}

/// What a batch changed is kept, whatever handles it named; what was taken back is not.
#[test]
fn batches_are_kept() {
    let folder = std::env::temp_dir().join(format!("p4jet-write-{}", std::process::id()));
    let file = folder.join("state");
    std::fs::create_dir_all(&folder).unwrap();
    let begun = || {
        let control = SharedControl::new(control(), None);
        assert_eq!(control.keep(&file, no_commands).unwrap(), [""; 0]);
        control
    };
    let names = control();
    let first = begun();
    first.write(vec![l2(&names, 5, 1)], Atomicity::AllOrNothing);
    let (written, unkept) = first.write(group_with_member(&names), Atomicity::AllOrNothing);
    assert!(written.in_effect && unkept.is_none());
    let (written, _) = first.write(vec![l2(&names, 6, 1), l2(&names, 5, 1)], Atomicity::AllOrNothing);
    assert!(!written.in_effect);
    let batch = vec![l2(&names, 5, 1), l2(&names, 7, 1), Update::SetLag { lag: 2, ports: [4].into() }];
    first.write(batch, Atomicity::ContinueOnError);
    // Insertions whose table and action the journal need not repeat.
    // Between them one of an action profile.
    let mut mixed = group_with_member(&names);
    mixed.truncate(4);
    mixed.insert(0, l2(&names, 40, 1));
    for update in &mut mixed {
        match update {
            Update::AddToGroup { group, member, .. } => (*group, *member) = (Ref::Made(2), Ref::Made(1)),
            Update::Insert { act: Act::Group(group), .. } => *group = Ref::Made(2),
            _ => {}
        }
    }
    mixed.push(l2(&names, 41, 1));
    let (written, _) = first.write(mixed, Atomicity::AllOrNothing);
    assert!(written.in_effect, "{:?}", written.results);
    let many = (8..20).map(|value| l2(&names, value, value % 5)).chain([fixed_entry(&names, 3)]);
    let more = [l2(&names, 30, 1), fixed_entry(&names, 4), fixed_entry(&names, 5), l2(&names, 31, 1)];
    first.write(many.chain(more).collect(), Atomicity::ContinueOnError);
    let before = first.dump(false);
    drop(first);
    assert_eq!(begun().dump(false), before);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Any JSON gives an update or an error.
#[test]
fn named_updates_that_do_not_fit() {
    let control = control();
    for (text, field) in [
        (r#"{"insert":{"table":"l3","key":["1"],"do":{"action":"out","params":["1"]}}}"#, "table"),
        (r#"{"insert":{"table":"l2","key":["1","2"],"do":{"action":"out","params":["1"]}}}"#, "key"),
        (r#"{"insert":{"table":"l2","key":["x"],"do":{"action":"out","params":["1"]}}}"#, "key "),
        (
            r#"{"insert":{"table":"l2","key":["1"],"priority":1,"do":{"action":"out","params":["1"]}}}"#,
            "priority",
        ),
        (r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"out"}}}"#, "action"),
        (r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"out","params":["x"]}}}"#, "parameter "),
        (r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"outt","params":["1"]}}}"#, "action"),
        (
            r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"out","params":["1"],"member":3}}}"#,
            "action",
        ),
    ] {
        let named: NamedUpdate = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let error = control.schema().resolve(&named).unwrap_err();
        assert!(error.field.as_deref().is_some_and(|found| found.starts_with(field)), "{text}: {error:?}");
    }
    assert!(serde_json::from_str::<NamedUpdate>(r#"{"insert":{"tabel":"l2"}}"#).is_err());
}

/// The handle of one sort of object is none of another, even where an object has that number.
#[test]
fn references_to_another_kind_of_object_are_refused() {
    let control = control();
    set_up(
        &control,
        r#"{"create_member":{"profile":"ecmp","do":{"action":"out","params":["1"]}}}
{"insert":{"table":"acl","key":["1&&&1","1->2","0&&&0","::1"],"priority":9,"do":{"action":"deny"}}}"#,
    );
    let schema = control.schema();
    let (profile, acl) = (schema.profile("ecmp").unwrap(), schema.table("acl").unwrap());
    let hops = schema.profile("hops").unwrap();
    let Act::Action(action) = deny(&control, "next_hop") else { unreachable!() };
    let before = dump(&control);
    for (first, second, what) in [
        (
            Update::CreateGroup { profile },
            Update::DeleteMember { profile, member: Ref::Made(0) },
            "made a group of `ingress.ecmp`, expected a member of `ingress.ecmp`",
        ),
        (
            l2(&control, 1, 1),
            Update::Delete { table: acl, entry: EntryRef::Handle(Ref::Made(0)) },
            "made an entry of `ingress.l2`, expected an entry of `ingress.acl`",
        ),
        (
            Update::CreateMember { profile: hops, action },
            Update::DeleteMember { profile, member: Ref::Made(0) },
            "made a member of `ingress.hops`, expected a member of `ingress.ecmp`",
        ),
        (
            Update::CreateMulticastGroup(1),
            Update::DestroyNode(Ref::Made(0)),
            "made nothing, expected a multicast node",
        ),
    ] {
        let written = control.write(vec![first, second], Atomicity::AllOrNothing);
        let error = written.results[1].as_ref().unwrap_err();
        assert!(error.message.contains(what), "{error}");
        assert_eq!(dump(&control), before);
    }
}

/// Of two entries with equal priority the older one wins, also after a refused batch had deleted it.
#[test]
fn a_refused_batch_keeps_the_order_of_entries() {
    let control = control();
    let acl = control.schema().table("acl").unwrap();
    let entry = |mask: u32, call: &str| {
        let key = format!(r#"["5&&&{mask}","0->65535","0&&&0","::1"]"#);
        format!(r#"{{"insert":{{"table":"acl","key":{key},"priority":5,"do":{{{call}}}}}}}"#)
    };
    set_up(&control, &entry(7, r#""action":"deny""#));
    set_up(&control, &entry(15, r#""action":"out","params":["1"]"#));
    set_up(&control, &entry(31, r#""action":"out","params":["2"]"#));
    let key: Vec<num_bigint::BigUint> = [5u32, 9, 7, 1].map(Into::into).into();
    let winner = || control.switch().table(acl).lookup(&key).unwrap().0;
    assert_eq!(winner(), 0);
    let delete = |handle: u32| Update::Delete { table: acl, entry: handle.into() };
    for first in [vec![delete(0)], vec![delete(1), delete(0)], vec![Update::Clear(acl)]] {
        let batch = first.into_iter().chain([delete(77)]).collect();
        assert!(!control.write(batch, Atomicity::AllOrNothing).in_effect);
        assert_eq!(winner(), 0);
        let ages: Vec<_> =
            (0..3).map(|handle| control.switch().table(acl).age(p4jet_tables::EntryHandle(handle))).collect();
        assert!(ages.is_sorted() && ages[0] < ages[1], "{ages:?}");
    }
    // New ones are younger still.
    set_up(&control, &entry(63, r#""action":"out","params":["3"]"#));
    let age = |handle| control.switch().table(acl).age(p4jet_tables::EntryHandle(handle));
    assert!(age(3) > age(2) && age(3) > age(1));
}

/// Ids that the program does not have are refused, also where the update would be kept.
#[test]
fn unknown_ids_are_refused() {
    let folder = std::env::temp_dir().join(format!("p4jet-ids-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let kept = SharedControl::new(control(), None);
    kept.keep(&folder.join("state"), no_commands).unwrap();
    let (table, instance) = (p4jet_ir::TableId(999), p4jet_ir::InstanceId(999));
    let value = CounterValue { packets: 1, bytes: 1 };
    let key = vec![KeyMatch::Exact(1u32.into())];
    for update in [
        Update::Clear(table),
        Update::Insert { table, key: key.clone(), priority: 0, act: Act::Member(0.into()) },
        Update::WriteCounter { counter: instance, cell: Cell::Index(0), value },
        Update::ResetRegister(instance),
        Update::SetMeterArray { meter: instance, rates: None },
        Update::CreateGroup { profile: instance },
        Update::AddToValueSet { set: table, key },
    ] {
        for atomicity in [Atomicity::AllOrNothing, Atomicity::ContinueOnError] {
            let text = format!("{update:?}");
            let (written, unkept) = kept.write(vec![update.clone()], atomicity);
            assert!(written.results[0].is_err() && unkept.is_none(), "{text}: {written:?}");
        }
    }
    // Reads refuse them, too.
    let control = kept.control();
    for (error, field) in [
        (control.counter_value(instance, 0).map(drop).unwrap_err(), "counter"),
        (control.meter_rates(instance, 0).map(drop).unwrap_err(), "meter"),
        (control.register_value(instance, 0).map(drop).unwrap_err(), "register"),
        (control.register_values(instance).map(drop).unwrap_err(), "register"),
        (control.check_room(instance, 1).unwrap_err(), "action profile"),
    ] {
        assert!(error.message.contains("no such") || field == "action profile", "{error:?}");
        assert_eq!(error.field.as_deref(), Some(field), "{error:?}");
    }
    assert_eq!(control.schema().direct_table(instance), None);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Multicast and queues as a refused batch leaves them: as they were, in the same order.
#[test]
fn a_refused_batch_keeps_multicast_and_queues() {
    let control = control();
    let node =
        |replication_id, port| Update::CreateNode { replication_id, ports: [port].into(), lags: [3].into() };
    let queue =
        |packets, port| Update::Queue(QueueUpdate::Depth { packets, of: Queue { port, queue: None } });
    let set = vec![
        Update::CreateMulticastGroup(1),
        node(5, 1),
        node(6, 2),
        node(7, 3),
        Update::Associate { group: 1, node: Ref::Made(1) },
        Update::Associate { group: 1, node: Ref::Made(2) },
        Update::Associate { group: 1, node: Ref::Made(3) },
        Update::SetLag { lag: 3, ports: [8, 9].into() },
        queue(7, Some(1)),
    ];
    assert!(control.write(set, Atomicity::AllOrNothing).results.iter().all(Result::is_ok));
    let copies = || control.switch().state().destinations().groups.clone();
    let (before, copies_before) = (dump(&control), copies());
    let [a, b] = [1, 0].map(Ref::Handle);
    let changes = [
        Update::Dissociate { group: 1, node: a },
        Update::DestroyNode(b),
        Update::UpdateNode { node: a, ports: [4].into(), lags: [].into() },
        Update::DestroyMulticastGroup(1),
        Update::CreateMulticastGroup(1),
        Update::CreateMulticastGroup(2),
        Update::Associate { group: 2, node: a },
        node(9, 9),
        Update::SetLag { lag: 3, ports: [1].into() },
        Update::SetLag { lag: 4, ports: [1].into() },
        queue(9, Some(1)),
        queue(9, Some(2)),
        queue(5, None),
    ];
    for count in 1..=changes.len() {
        let mut batch = changes[..count].to_vec();
        batch.push(Update::DestroyNode(Ref::Handle(77)));
        assert!(!control.write(batch, Atomicity::AllOrNothing).in_effect, "{count}");
        assert_eq!(
            (dump(&control), copies()),
            (before.clone(), copies_before.clone()),
            "after {count} changes"
        );
    }
}

/// Each change costs what it changes, not what there is: before, 8,000 nodes took 21 s and 6 GB.
#[test]
fn large_batches_of_nodes_and_queues_are_fast() {
    let control = control();
    let start = std::time::Instant::now();
    let mut batch = vec![Update::CreateMulticastGroup(1)];
    for node in 0..16_000 {
        batch.push(Update::CreateNode { replication_id: 1, ports: [node % 511].into(), lags: [].into() });
        let of = Queue { port: Some(node % 511), queue: None };
        batch.push(Update::Associate { group: 1, node: Ref::Made(3 * node + 1) });
        batch.push(Update::Queue(QueueUpdate::Depth { packets: 5, of }));
    }
    batch.push(Update::DestroyNode(Ref::Handle(77_777)));
    let before = dump(&control);
    assert!(!control.write(batch, Atomicity::AllOrNothing).in_effect);
    assert_eq!(dump(&control), before);
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

/// The limits of runtime commands and of P4Runtime hold for typed updates.
#[test]
fn limits_hold_for_typed_updates() {
    let control = control();
    let acl = |priority| match fixed_entry(&control, 7) {
        Update::Insert { table, key, act, .. } => Update::Insert { table, key, priority, act },
        other => panic!("{other:?}"),
    };
    let session = |to| Update::SetSession { session: 1, to, bytes_max: None };
    let copies = |pairs: &[(u32, u32)]| -> Vec<Replica> {
        pairs.iter().map(|(port, id)| Replica { port: *port, replication_id: *id }).collect()
    };
    let replicas = |replicas: &[(u32, u32)], class_of_service| Update::SetReplicas {
        session: 1,
        replicas: copies(replicas),
        class_of_service,
        bytes_max: None,
    };
    let group =
        |replicas: &[(u32, u32)]| Update::SetMulticastGroup { group: 1, replicas: Some(copies(replicas)) };
    let node = |port| Update::CreateNode { replication_id: 1, ports: [port].into(), lags: [].into() };
    let lag = |port| Update::SetLag { lag: 1, ports: [port].into() };
    for (update, field, found) in [
        (acl(1 << 31), "priority", "2147483648"),
        (acl(u32::MAX), "priority", "4294967295"),
        (session(CloneDestination::Port(512)), "port", "512"),
        (replicas(&[(512, 0)], 0), "port", "512"),
        (replicas(&[(1, 0), (1, 0)], 0), "replicas", "port 1 with replication id 0 twice"),
        (replicas(&[(1, 0)], 8), "class of service", "8"),
        (replicas(&[(1, 0)], 4_000_000_000), "class of service", "4000000000"),
        (group(&[(1, 2), (3, 2), (1, 2)]), "replicas", "port 1 with replication id 2 twice"),
        (group(&[(512, 0)]), "port", "512"),
        (group(&[(1, 0); REPLICAS_MAX + 1]), "replicas", "65537 replicas"),
        (node(512), "port", "512"),
        (Update::UpdateNode { node: 0.into(), ports: [512].into(), lags: [].into() }, "port", "512"),
        (lag(512), "port", "512"),
    ] {
        let text = format!("{update:?}");
        let error = refused(&control, update);
        assert_eq!(error.field.as_deref(), Some(field), "{text}: {error}");
        assert!(error.message.contains(found) && error.message.contains("expected"), "{text}: {error}");
    }
    for update in [
        acl(i32::MAX as u32),
        session(CloneDestination::Port(511)),
        replicas(&[(1, 0), (1, 1), (2, 0), (511, 0)], 7),
        group(&[(1, 0), (1, 1), (511, 65_535)]),
        node(511),
        lag(511),
    ] {
        let result = control.write(vec![update.clone()], Atomicity::AllOrNothing).results.remove(0);
        assert!(result.is_ok(), "{update:?}: {result:?}");
    }
}

/// Errors of named updates carry the object and the field, and state what is expected.
#[test]
fn errors_of_named_updates_have_their_place() {
    let control = control();
    for (line, entity, field, message) in [
        (
            r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"out","params":["x"]}}}"#,
            "ingress.l2",
            "parameter port",
            "`x` is not a number",
        ),
        (r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"out"}}}"#, "ingress.l2", "action", "found 0"),
        (
            r#"{"create_member":{"profile":"ecmp","do":{"action":"out","params":["x"]}}}"#,
            "ecmp",
            "parameter port",
            "`x` is not a number",
        ),
        (
            r#"{"insert":{"table":"l2","key":["1"],"priority":3,"do":{"action":"deny"}}}"#,
            "ingress.l2",
            "priority",
            "found priority 3, expected none or 0: entries of `ingress.l2` have no priority",
        ),
        (
            r#"{"insert":{"table":"route","key":["1&&&1"],"do":{"member":0}}}"#,
            "ingress.route",
            "priority",
            "found no priority, expected 0 to 2147483647",
        ),
        (
            r#"{"write_register":{"register":"cells","index":0,"value":"x"}}"#,
            "cells",
            "value",
            "`x` is not a number",
        ),
    ] {
        let named: NamedUpdate = serde_json::from_str(line).unwrap();
        let error = control.schema().resolve(&named).unwrap_err();
        assert!(error.entity.as_deref().is_some_and(|found| found.ends_with(entity)), "{line}: {error:?}");
        assert_eq!(error.field.as_deref(), Some(field), "{line}: {error:?}");
        assert!(error.message.contains(message), "{line}: {error}");
    }
    // As in `Selector::EntryByKey`, 0 stands for no priority.
    set_up(&control, r#"{"insert":{"table":"l2","key":["1"],"priority":0,"do":{"action":"deny"}}}"#);
    let read = r#"{"entry":{"table":"l2","entry":{"key":["1"],"priority":0}}}"#;
    assert!(!control.read_named(&serde_json::from_str(read).unwrap(), 0, 1).unwrap().records.is_empty());
    let profile = control.schema().profile("ecmp").unwrap();
    let error = refused(&control, Update::DeleteMember { profile, member: Ref::Made(0) });
    assert_eq!(
        error.message,
        "update 0 of the batch refers to itself: expected a handle, because no update comes before it"
    );
    let itself = Update::DeleteMember { profile, member: Ref::Made(1) };
    let batch = vec![Update::CreateGroup { profile }, itself];
    let error = control.write(batch, Atomicity::ContinueOnError).results.remove(1).unwrap_err();
    assert_eq!(
        error.message,
        "update 1 of the batch refers to itself: expected a handle or an earlier update, 0 to 0"
    );
}

/// A batch holds up other batches, but no reader and not the end of the switch.
#[test]
fn readers_and_the_end_do_not_wait_for_a_batch() {
    let shared = SharedControl::new(control(), None);
    let begun = shared.transaction(&shared.control(), 1).expect("nothing replaces the program");
    let (answer, answers) = std::sync::mpsc::channel();
    let other = shared.clone();
    // Not joined: on a fault it waits for ever.
    std::thread::spawn(move || {
        let entries = other.control().entries();
        let _ = answer.send((entries, other.write_state_file().map_err(|error| error.why.to_string())));
    });
    let (entries, end) = answers.recv_timeout(std::time::Duration::from_secs(20)).expect("it does not wait");
    assert_eq!((entries, end), (1, Err("a batch of updates has not ended: neither its updates nor the latest register values are saved".into())));
    drop(begun);
    assert!(shared.write_state_file().is_ok());
}

/// An update of a large array lets other updates pass, except those that touch the array, and reads of the whole state.
#[test]
fn a_large_array_is_set_in_steps() {
    const SIZE: u32 = 1 << 23;
    let program = include_str!("common/sample.ir");
    let program = program.replace("packets_and_bytes size 8\n", &format!("packets_and_bytes size {SIZE}\n"));
    let program = p4jet_ir::text::parse(&program).unwrap();
    let control = Control::new(p4jet_dataplane::Switch::new(program).unwrap());
    let shared = SharedControl::new(control.clone(), None);
    let counter = control.schema().counter("ingress.seen").unwrap();
    let table = control.schema().table("l2").unwrap();
    let write = |update| shared.write(vec![update], Atomicity::ContinueOnError).0.results.remove(0).unwrap();
    let set = |index: u32, packets: u64| {
        let value = CounterValue { packets, bytes: 0 };
        write(Update::WriteCounter { counter, cell: Cell::Index(index), value });
    };
    let ends = || [0, SIZE - 1].map(|index| control.counter_value(counter, index).unwrap().packets);
    let is_half_set = || ends() == [0, 5];
    let (mut passed, mut waited) = (0, [false; 2]);
    // The machine may be too busy for both threads during one reset.
    for round in 0..200 {
        set(0, 5);
        set(SIZE - 1, 5);
        std::thread::scope(|scope| {
            let reset = scope.spawn(|| write(Update::ResetCounter(counter)));
            while !reset.is_finished() && !is_half_set() {}
            for _ in 0..5 {
                let entry = write(l2(&control, 1, 1)).unwrap();
                write(Update::Delete { table, entry: entry.into() });
                passed += u32::from(is_half_set());
            }
            if !is_half_set() {
                return;
            }
            waited[round % 2] = true;
            if round % 2 == 0 {
                set(0, 7);
                assert_eq!(ends(), [7, 0]);
            } else {
                shared.dump(false);
                assert_eq!(ends(), [0, 0]);
            }
        });
        if passed > 5 && waited == [true; 2] {
            return;
        }
    }
    panic!("{passed} batches passed an update of a large array; {waited:?}");
}
