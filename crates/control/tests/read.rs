//! Typed reads.

use crate::common::{control, set_up};
use p4jet_control::{
    Atomicity, Control, Description, Entity, GroupState, NOTE_BYTES_MAX, NamedSelector, Noted, PAGE_MAX,
    Selector, Share, Update,
};

/// All that a selector chooses, in pages of this size.
fn all(control: &Control, selector: &Selector, max: usize) -> Vec<Entity> {
    let (mut entities, mut from, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(at) = from {
        let page = control.read(selector, at, max).unwrap();
        assert!(page.entities.len() <= max.clamp(1, PAGE_MAX));
        entities.extend(page.entities);
        from = page.next;
        pages += 1;
        assert!(pages < 100_000, "it has an end");
    }
    entities
}

#[test]
fn pages_hold_everything_once() {
    let control = control();
    let schema = control.schema();
    set_up(&control, include_str!("common/everything.json"));
    let (l2, ecmp) = (schema.table("l2").unwrap(), schema.profile("ecmp").unwrap());
    let selectors = [
        (Selector::Entries(l2), 2),
        (Selector::Default(l2), 1),
        (Selector::Members(ecmp), 2),
        (Selector::Groups(ecmp), 1),
        (Selector::Counter(schema.counter("seen").unwrap()), 8),
        (Selector::Register(schema.register("cells").unwrap()), 4),
        (Selector::Meter(schema.meter("ingress.police").unwrap()), 4),
        (Selector::ValueSet(schema.value_set("pairs").unwrap()), 2),
        (Selector::MulticastGroups, 2),
        (Selector::Nodes, 1),
        (Selector::Lags, 1),
        (Selector::Sessions, 2),
    ];
    for (selector, expected) in selectors {
        let whole = all(&control, &selector, PAGE_MAX);
        assert_eq!(whole.len(), expected, "{selector:?}: {whole:?}");
        for max in [0, 1, 2, 3, usize::MAX] {
            assert_eq!(all(&control, &selector, max), whole, "{selector:?} by {max}");
        }
        let beyond = control.read(&selector, u64::MAX, 5).unwrap();
        assert!(beyond.next.is_none() && beyond.entities.len() <= 1, "{selector:?}: {beyond:?}");
    }
    let entries = all(&control, &Selector::Entries(l2), 1);
    let [Entity::Entry(first), Entity::Entry(last)] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((first.handle, last.handle), (0, 2));
    assert_eq!(first.life.map(|life| life.timeout_ms), Some(5000));
    assert_eq!(
        last.counters.iter().map(|(_, value)| (value.packets, value.bytes)).collect::<Vec<_>>(),
        [(5, 300)]
    );
    assert_eq!(all(&control, &Selector::Entry(l2, 2), 1), entries[1..]);
    let meters = all(&control, &Selector::Meter(schema.meter("ingress.police").unwrap()), 3);
    assert!(matches!(&meters[1], Entity::Meter(1, Some(rates)) if rates[1].burst == 4), "{meters:?}");
    let sessions = all(&control, &Selector::Sessions, 1);
    assert!(matches!(&sessions[..], [Entity::Session(2, _), Entity::Session(5, _)]), "{sessions:?}");
}

/// An array of 65,537 cells takes several pages, whatever the reader asks for.
#[test]
fn pages_have_a_maximum_size() {
    let control = control();
    let cells = Selector::Register(control.schema().register("bit").unwrap());
    assert_eq!(control.read(&cells, 0, usize::MAX).unwrap().entities.len(), PAGE_MAX);
    assert_eq!(all(&control, &cells, usize::MAX).len(), 65_537);
}

/// A group has its weights, whether they were set or not.
#[test]
fn groups_have_weights() {
    let control = control();
    set_up(
        &control,
        r#"{"create_member":{"profile":"ecmp","do":{"action":"deny"}}}
{"create_member":{"profile":"ecmp","do":{"action":"deny"}}}
{"create_group":{"profile":"ecmp"}}
{"create_group":{"profile":"ecmp"}}
{"add_to_group":{"profile":"ecmp","group":0,"member":1}}
{"set_group":{"profile":"ecmp","group":1,"members":[[0,3],[1,0]]}}"#,
    );
    let group = |handle, members: &[(u32, u32)], weighted| {
        let members = members.iter().map(|(member, weight)| Share { member: *member, weight: *weight });
        Entity::Group(handle, GroupState { members: members.collect(), weighted })
    };
    let ecmp = control.schema().profile("ecmp").unwrap();
    let expected = [group(0, &[(1, 1)], false), group(1, &[(0, 3), (1, 0)], true)];
    assert_eq!(all(&control, &Selector::Groups(ecmp), 1), expected);
    assert_eq!(
        records(&control, r#"{"groups":{"profile":"ecmp"}}"#, 1),
        [
            r#"{"group":{"profile":"ingress.ecmp","handle":0,"members":[1]}}"#,
            r#"{"group":{"profile":"ingress.ecmp","handle":1,"members":[0,1],"places":[3,0]}}"#
        ]
    );
}

/// One multicast group, and the note about one object.
#[test]
fn single_objects_are_read() {
    let control = control();
    set_up(
        &control,
        r#"{"create_multicast_group":{"group":1}}
{"create_multicast_group":{"group":2}}
{"create_node":{"rid":1,"ports":[1],"lags":[]}}
{"associate":{"group":2,"node":0}}
{"note":{"of":{"multicast_group":2},"note":"07ff"}}"#,
    );
    assert_eq!(all(&control, &Selector::MulticastGroup(2), 5), [Entity::MulticastGroup(2, vec![0])]);
    assert_eq!(
        records(&control, r#"{"multicast_group":{"group":2}}"#, 5),
        [r#"{"multicast":{"groups":{"2":[0]},"nodes":{},"lags":{}}}"#]
    );
    let of = Noted::MulticastGroup(2);
    assert_eq!(all(&control, &Selector::Note(of.clone()), 5), [Entity::Note(of, Box::new([7, 255]))]);
    let note = r#"{"note":{"of":{"multicast_group":2},"note":"07ff"}}"#;
    assert_eq!(records(&control, r#"{"note":{"of":{"multicast_group":2}}}"#, 5), [note]);
    assert!(control.dump(true).lines().any(|line| line == note));
    assert!(all(&control, &Selector::Note(Noted::MulticastGroup(1)), 5).is_empty());
}

/// The notes about objects of all kinds, in pages of any size.
#[test]
fn notes_are_read_in_pages() {
    let control = control();
    set_up(
        &control,
        r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}
{"insert":{"table":"l2","key":["2"],"do":{"action":"deny"}}}
{"create_group":{"profile":"ecmp"}}
{"create_multicast_group":{"group":1}}
{"set_session":{"number":5,"port":1}}
{"note":{"of":{"own":"b"},"note":"01"}}
{"note":{"of":{"own":"a"},"note":"02"}}
{"note":{"of":{"digest":"c"},"note":"03"}}
{"note":{"of":{"session":5},"note":"04"}}
{"note":{"of":{"multicast_group":1},"note":"05"}}
{"note":{"of":{"group":{"profile":"ecmp","group":0}},"note":"06"}}
{"note":{"of":{"default":{"table":"acl"}},"note":"07"}}
{"note":{"of":{"entry":{"table":"l2","handle":1}},"note":"08"}}
{"note":{"of":{"entry":{"table":"l2","handle":0}},"note":"09"}}"#,
    );
    let expected: Vec<_> = control.notes().into_iter().map(|(of, note)| Entity::Note(of, note)).collect();
    assert_eq!(expected.len(), 9);
    for max in [1, 2, 3, 4, 7, 9, 100] {
        assert_eq!(all(&control, &Selector::Notes, max), expected, "by {max}");
    }
    // Others are not missed if a note is deleted between two pages.
    let page = control.read(&Selector::Notes, 0, 2).unwrap();
    set_up(&control, r#"{"delete":{"table":"l2","entry":0}}"#);
    assert_eq!(control.read(&Selector::Notes, page.next.unwrap(), 100).unwrap().entities, expected[2..]);
    assert!(control.read(&Selector::Notes, u64::MAX, 100).unwrap().entities.is_empty());
    let named = records(&control, r#"{"notes":{}}"#, 3);
    let dump = control.dump(true);
    assert!(
        named.len() == 8 && named.iter().all(|record| dump.lines().any(|line| line == record)),
        "{named:?}"
    );
    // Long notes come one by one.
    let long = |name: &str| {
        let of = Noted::Own(name.into());
        Update::Note { of, note: Some(vec![0; NOTE_BYTES_MAX].into()) }
    };
    assert!(control.write(vec![long("x"), long("y"), long("z")], Atomicity::AllOrNothing).in_effect);
    let from = page.next.unwrap();
    let page = control.read(&Selector::Notes, from, 100).unwrap();
    assert_eq!(page.entities.len(), 8);
    assert_eq!(control.read(&Selector::Notes, page.next.unwrap(), 100).unwrap().entities.len(), 1);
}

/// All records that a selector by name chooses, in pages of this size.
fn records(control: &Control, selector: &str, max: usize) -> Vec<String> {
    let selector: NamedSelector =
        serde_json::from_str(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
    let (mut records, mut from) = (Vec::new(), Some(0));
    while let Some(at) = from {
        let page = control.read_named(&selector, at, max).unwrap_or_else(|e| panic!("{selector:?}: {e}"));
        records.extend(page.records.iter().map(|record| serde_json::to_string(record).unwrap()));
        from = page.next;
    }
    records
}

/// A read by name gives the records of a dump.
#[test]
fn names_give_the_records_of_a_dump() {
    let control = control();
    set_up(&control, include_str!("common/everything.json"));
    let dump = control.dump(true);
    for (selector, kind) in [
        (r#"{"entries":{"table":"l2"}}"#, "entry"),
        (r#"{"members":{"profile":"ecmp"}}"#, "member"),
        (r#"{"groups":{"profile":"ecmp"}}"#, "group"),
        (r#"{"counter":{"counter":"seen"}}"#, "counter"),
        (r#"{"meter":{"meter":"ingress.police"}}"#, "meter"),
        (r#"{"register":{"register":"cells"}}"#, "register"),
        (r#"{"value_set":{"set":"pairs"}}"#, "value_set"),
        (r#"{"sessions":{}}"#, "session"),
    ] {
        let found = records(&control, selector, PAGE_MAX);
        assert!(
            found.iter().any(|record| record.starts_with(&format!("{{\"{kind}\":"))),
            "{selector}: {found:?}"
        );
        for record in found.iter().filter(|record| record.starts_with(&format!("{{\"{kind}\":"))) {
            assert!(dump.lines().any(|line| line == record), "{selector}: {record} is not in\n{dump}");
        }
    }
    // The entry by its key is the one by its handle, with its direct counters.
    let by_handle = records(&control, r#"{"entry":{"table":"l2","entry":2}}"#, 1);
    let of: serde_json::Value = serde_json::from_str(&by_handle[0]).unwrap();
    let key = &of["entry"]["key"];
    assert_eq!(
        records(&control, &format!(r#"{{"entry":{{"table":"l2","entry":{{"key":{key}}}}}}}"#), 1),
        by_handle
    );
    assert!(by_handle[1].contains(r#""cells":{"2":[5,300]}"#), "{by_handle:?}");
    let queues = records(&control, r#"{"queues":{}}"#, 1);
    assert!(queues[0].starts_with(r#"{"queues":{"per_port":"#), "{queues:?}");
    let crcs = control.schema().description().crcs.len();
    assert_eq!(records(&control, r#"{"crcs":{}}"#, 1).len(), crcs);
}

#[test]
fn unknown_names_are_refused() {
    let control = control();
    for (selector, field) in [
        (r#"{"entries":{"table":"l3"}}"#, "table"),
        (r#"{"entry":{"table":"l2","entry":9}}"#, "handle"),
        (r#"{"entry":{"table":"l2","entry":{"key":["1","2","3"]}}}"#, "key"),
        (r#"{"entry":{"table":"l2","entry":{"made":0}}}"#, "entry"),
        (r#"{"crc":{"name":"no"}}"#, "custom CRC"),
    ] {
        let named = serde_json::from_str(selector).unwrap_or_else(|e| panic!("{selector}: {e}"));
        let error = control.read_named(&named, 0, 1).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{selector}: {error}");
    }
}

/// The schema has the shape of each object, and survives its form in JSON.
#[test]
fn the_schema_describes_the_program() {
    let control = control();
    let schema = control.schema();
    let description = schema.description();
    let text = serde_json::to_string(description).unwrap();
    assert_eq!(serde_json::from_str::<Description>(&text).unwrap(), *description);
    let program = control.program();
    for (table, id) in program.tables.iter().zip(0..).map(|(table, id)| (table, p4jet_ir::TableId(id))) {
        let info = schema.table_info(id).unwrap();
        assert_eq!((&info.name, info.size, info.key.len()), (&table.name, table.size, table.keys.len()));
        assert_eq!(info.actions.len(), table.actions.len());
        assert_eq!(info.needs_priority, schema.shape(id).needs_priority);
        for (field, key) in schema.key(id).iter().zip(&table.keys) {
            assert_eq!((&field.name, field.kind, field.width), (&key.name, key.kind, key.width));
        }
    }
    let listed = description.tables.len() + description.value_sets.len();
    assert_eq!(listed, program.tables.len());
    assert!(schema.table_info(p4jet_ir::TableId(999)).is_none());
    let l2 = description.table("l2").unwrap();
    assert!(!l2.actions.is_empty() && l2.direct_counters.len() == 1, "{l2:?}");
}
