//! Timeouts of entries: which entries are reported, once, and which are not.

use p4jet_tables::*;

const MS: u64 = 1000;
/// A hit counts from the end of its unit of time.
const UNIT: u64 = 1 << HIT_SHIFT;

fn table(key: KeySpec) -> Table {
    Table::new(TableSpec {
        keys: vec![key],
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9, 80] }],
        size: 64,
        row_per_entry: false,
        idle_timeout: true,
        default: Action { action: 0, data: vec![] },
    })
}

type KeyOf = fn(u32) -> KeyMatch;

fn keys() -> Vec<(KeySpec, KeyOf)> {
    vec![
        (KeySpec { width: 48, kind: MatchKind::Exact }, |n| KeyMatch::Exact(n.into())),
        (KeySpec { width: 8, kind: MatchKind::Exact }, |n| KeyMatch::Exact(n.into())),
        (KeySpec { width: 128, kind: MatchKind::Exact }, |n| KeyMatch::Exact(n.into())),
        (KeySpec { width: 32, kind: MatchKind::Lpm }, |n| KeyMatch::Lpm {
            value: (n << 8).into(),
            prefix_len: 24,
        }),
        (KeySpec { width: 64, kind: MatchKind::Lpm }, |n| KeyMatch::Lpm {
            value: (u64::from(n) << 32).into(),
            prefix_len: 32,
        }),
        (KeySpec { width: 16, kind: MatchKind::Ternary }, |n| KeyMatch::Ternary {
            value: n.into(),
            mask: 0xffffu32.into(),
        }),
    ]
}

fn action(port: u32) -> Action {
    Action { action: 1, data: vec![port.into(), 77u32.into()] }
}

fn swept(table: &mut Table, now_us: u64) -> Vec<EntryHandle> {
    let idle = table.sweep(now_us, 100);
    assert!(!idle.more);
    idle.handles
}

#[test]
fn an_entry_is_idle_once_until_it_is_hit() {
    for (key, value) in keys() {
        let mut table = table(key);
        let mut add =
            |n| table.insert(Entry { key: vec![value(n)], priority: 1, action: action(n) }).unwrap();
        let (a, b, c) = (add(1), add(2), add(3));
        table.set_timeout(a, 100, 0).unwrap();
        table.set_timeout(b, 200, 0).unwrap();
        assert_eq!(table.life(a, 50 * MS), Some(Life { timeout_ms: 100, since_hit_ms: 50 }));
        assert_eq!(table.life(c, 50 * MS), None);
        assert_eq!(swept(&mut table, 100 * MS), []);
        assert_eq!(swept(&mut table, 100 * MS + UNIT), [a]);
        assert_eq!(swept(&mut table, 150 * MS), []);
        assert_eq!(swept(&mut table, 250 * MS), [b]);
        assert_eq!(swept(&mut table, 1000 * MS), []);
        assert_eq!(table.idle(1000 * MS), [a, b]);
        // Idle again, after a hit.
        table.hit(table.row_of(b), 1000 * MS);
        assert_eq!(table.idle(1100 * MS), [a]);
        assert_eq!(swept(&mut table, 1190 * MS), []);
        assert_eq!(swept(&mut table, 1220 * MS), [b]);
        assert_eq!(swept(&mut table, 9000 * MS), []);
        // A change of its action is no hit.
        table.hit(table.row_of(a), 9000 * MS);
        table.modify(a, action(9)).unwrap();
        assert_eq!(table.life(a, 9060 * MS).unwrap().since_hit_ms, 60 + 9000 * MS % UNIT / MS);
        assert_eq!(table.get(a).unwrap().action, action(9));
        assert_eq!(swept(&mut table, 9120 * MS), [a]);
        // Without a timeout, or deleted, an entry is never idle; the next entry in its slot starts without a timeout.
        table.set_timeout(a, 0, 9200 * MS).unwrap();
        table.set_timeout(b, 10, 9200 * MS).unwrap();
        table.delete(b).unwrap();
        let d = table.insert(Entry { key: vec![value(4)], priority: 1, action: action(4) }).unwrap();
        assert_eq!((swept(&mut table, 99_000 * MS), table.life(d, 0)), (vec![], None));
        assert!(table.set_timeout(b, 10, 0).is_err());
        table.set_timeout(d, 10, 0).unwrap();
        table.clear();
        assert_eq!((swept(&mut table, 99_000 * MS), table.idle(99_000 * MS)), (vec![], vec![]));
    }
}

#[test]
fn a_sweep_looks_at_no_more_than_it_may() {
    let (key, value) = keys().remove(0);
    let mut table = table(key);
    let mut handles = Vec::new();
    for n in 0..50 {
        let handle = table.insert(Entry { key: vec![value(n)], priority: 0, action: action(n) }).unwrap();
        table.set_timeout(handle, 1 + n, 0).unwrap();
        handles.push(handle);
    }
    let mut found = Vec::new();
    for _ in 0..5 {
        let idle = table.sweep(1000 * MS, 10);
        assert_eq!((idle.handles.len(), idle.more), (10, true));
        found.extend(idle.handles);
    }
    assert_eq!(found, handles);
    assert_eq!(table.sweep(1000 * MS, 10), Idle::default());
}

#[test]
fn without_the_property_there_are_no_timeouts() {
    let mut spec = table(keys().remove(0).0).spec().clone();
    spec.idle_timeout = false;
    let mut table = Table::new(spec);
    let key = vec![KeyMatch::Exact(1u32.into())];
    let handle = table.insert(Entry { key, priority: 0, action: action(1) }).unwrap();
    table.set_timeout(handle, 10, 0).unwrap();
    assert_eq!(table.life(handle, 99 * MS), None);
    assert_eq!(swept(&mut table, 99_000 * MS), []);
}

/// Restoring a timeout reverses a change of it, but not hits by packets since.
#[test]
fn a_restored_timeout_keeps_the_time_of_the_last_hit() {
    for (key, value) in keys() {
        let mut table = table(key);
        let handle = table.insert(Entry { key: vec![value(1)], priority: 1, action: action(1) }).unwrap();
        table.set_timeout(handle, 100, 0).unwrap();
        let saved = table.saved_timeout(handle).unwrap();
        table.set_timeout(handle, 7, 80 * MS).unwrap();
        table.restore_timeout(handle, saved, Some(80 * MS));
        assert_eq!(table.life(handle, 80 * MS), Some(Life { timeout_ms: 100, since_hit_ms: 80 }));
        assert_eq!(swept(&mut table, 100 * MS + UNIT), [handle]);
        // It was reported, and is not reported again.
        let saved = table.saved_timeout(handle).unwrap();
        table.set_timeout(handle, 0, 200 * MS).unwrap();
        table.restore_timeout(handle, saved, Some(200 * MS));
        assert_eq!(swept(&mut table, 400 * MS), []);
        // A packet hits it in between.
        let saved = table.saved_timeout(handle).unwrap();
        table.set_timeout(handle, 7, 500 * MS).unwrap();
        table.hit(table.row_of(handle), 600 * MS);
        table.restore_timeout(handle, saved, Some(500 * MS));
        assert!(table.life(handle, 620 * MS).unwrap().since_hit_ms < 30);
    }
}

/// The row of a new entry is prepared before lookups find the entry.
#[test]
fn a_new_entry_is_prepared_before_readers_find_it() {
    for (key, value) in keys() {
        let width = key.width;
        let mut table = table(key);
        let readers = table.view_handle();
        let found = |n: u32| {
            let guard = pin();
            let key: num_bigint::BigUint = match value(n) {
                KeyMatch::Exact(key) | KeyMatch::Lpm { value: key, .. } => key,
                KeyMatch::Ternary { value, .. } => value,
                other => panic!("{other:?}"),
            };
            let mut limbs = key.to_u64_digits();
            limbs.resize(limbs.len().max(width.div_ceil(64) as usize), 0);
            lookup_fast(readers.get(&guard), &limbs)
        };
        let entry = |n| Entry { key: vec![value(n)], priority: 1, action: action(n) };
        let mut prepared = 0;
        let handle = table
            .insert_prepared(entry(1), |row| {
                assert_eq!(found(1), 0);
                prepared = row;
            })
            .unwrap();
        assert_eq!((prepared, found(1)), (table.row_of(handle), table.row_of(handle)));
    }
}
