//! Typed reads.

mod common;

use common::{control, set_up};
use p4jet_control::{Control, Entity, PAGE_MAX, Selector};

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
fn no_page_is_too_long() {
    let control = control();
    let cells = Selector::Register(control.schema().register("bit").unwrap());
    assert_eq!(control.read(&cells, 0, usize::MAX).unwrap().entities.len(), PAGE_MAX);
    assert_eq!(all(&control, &cells, usize::MAX).len(), 65_537);
}

#[test]
fn what_is_not_there_is_refused() {
    let control = control();
    let schema = control.schema();
    let l2 = schema.table("l2").unwrap();
    let (hits, set) = (schema.counter("hits").unwrap(), schema.value_set("pairs").unwrap());
    for (selector, field) in [
        (Selector::Entry(l2, 9), "handle"),
        (Selector::Entries(p4jet_ir::TableId(999)), "table"),
        (Selector::Entries(set), "table"),
        (Selector::ValueSet(l2), "table"),
        (Selector::Counter(hits), "counter"),
        (Selector::Counter(p4jet_ir::InstanceId(999)), "counter"),
        (Selector::Register(hits), "register"),
        (Selector::Meter(hits), "meter"),
        (Selector::Session(3), "session"),
    ] {
        let error = control.read(&selector, 0, 1).unwrap_err();
        assert_eq!(error.field.as_deref(), Some(field), "{selector:?}: {error}");
    }
    assert!(control.read(&Selector::Members(hits), 0, 1).is_err());
}
