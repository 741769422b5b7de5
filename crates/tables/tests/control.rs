//! Handles and errors as control planes see them.

use num_bigint::BigUint;
use p4jet_tables::*;

fn spec(size: u32) -> TableSpec {
    TableSpec {
        keys: vec![
            KeySpec { width: 12, kind: MatchKind::Exact },
            KeySpec { width: 32, kind: MatchKind::Lpm },
        ],
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9, 48] }],
        size,
        row_per_entry: false,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    }
}

fn entry(vlan: u32, prefix: u32, prefix_len: u32) -> Entry {
    Entry {
        key: vec![KeyMatch::Exact(vlan.into()), KeyMatch::Lpm { value: prefix.into(), prefix_len }],
        priority: 0,
        action: Action { action: 1, data: vec![3u32.into(), 4u32.into()] },
    }
}

#[test]
fn handles_are_reused_lowest_first_with_the_next_generation() {
    let mut table = Table::new(spec(10));
    let handles: Vec<u32> = (0..4).map(|i| table.insert(entry(i, 0, 0)).unwrap().0).collect();
    assert_eq!(handles, [0, 1, 2, 3]);
    for handle in [2, 1] {
        table.delete(EntryHandle(handle)).unwrap();
    }
    assert_eq!(table.insert(entry(5, 0, 0)).unwrap().0, 1 + (1 << 24));
    assert_eq!(table.insert(entry(6, 0, 0)).unwrap().0, 2 + (1 << 24));
    assert_eq!(table.insert(entry(7, 0, 0)).unwrap().0, 4);
    let expired = table.delete(EntryHandle(1)).unwrap_err();
    assert_eq!(expired.code(), "EXPIRED_HANDLE");
    assert_eq!(
        expired.to_string(),
        "the entry with handle 1 was deleted; its slot now holds handle 16777217"
    );
    let mut handle = EntryHandle(1 + (1 << 24));
    for _ in 0..255 {
        table.delete(handle).unwrap();
        handle = table.insert(entry(5, 0, 0)).unwrap();
    }
    assert_eq!(handle.0, 1, "after 256 generations it is 0 again");
    table.clear();
    assert_eq!(table.insert(entry(5, 0, 0)).unwrap().0, 0);
}

/// An older entry that is restored does not bring back the handles of its successors, which were deleted.
#[test]
fn restored_entries_keep_retired_generations() {
    let generation = |handle: EntryHandle| handle.0 >> 24;
    let add = |table: &mut Table| table.insert(entry(1, 0, 0)).unwrap();
    for later in [4, 200, 250] {
        let mut table = Table::new(spec(10));
        let old = add(&mut table);
        table.delete(old).unwrap();
        // The slot is free, and then has an older entry.
        for retire_before in [true, false] {
            table.clear();
            if retire_before {
                table.retire_generations(0, later);
            }
            assert_eq!(table.restore(old, entry(1, 0, 0)), Ok(old));
            if !retire_before {
                table.retire_generations(0, later);
            }
            table.retire_generations(0, 3);
            assert_eq!(table.next_generations().collect::<Vec<_>>(), [(0, later)]);
            assert_eq!(table.retired_generations().collect::<Vec<_>>(), [(0, later)]);
            // Undoing a deletion changes nothing.
            table.delete(old).unwrap();
            assert_eq!(table.retired_generations().collect::<Vec<_>>(), [(0, later)]);
            table.restore(old, entry(1, 0, 0)).unwrap();
            table.delete(old).unwrap();
            let new = add(&mut table);
            assert_eq!(generation(new), u32::from(later));
            assert_eq!(table.retired_generations().count(), 0);
            table.delete(new).unwrap();
            assert_eq!(generation(add(&mut table)), u32::from(later) + 1);
        }
    }
    let mut table = Table::new(spec(10));
    table.retire_generations(10, 5);
    assert_eq!(table.next_generations().count(), 0, "there is no such slot");
}

#[test]
fn removed_entries_return_under_their_handles() {
    let mut table = Table::new(spec(10));
    for i in 0..4 {
        table.insert(entry(i, 0, 0)).unwrap();
    }
    // The last slot is in its second generation.
    table.delete(EntryHandle(3)).unwrap();
    table.insert(entry(3, 0, 0)).unwrap();
    let before: Vec<_> = table.entries().collect();
    let restore = |table: &mut Table, handle: EntryHandle| {
        let entry = before.iter().find(|(h, _)| *h == handle).unwrap().1.clone();
        assert_eq!(table.restore(handle, entry), Ok(handle));
    };

    table.delete(EntryHandle(1)).unwrap();
    restore(&mut table, EntryHandle(1));
    assert!(table.entries().eq(before.iter().cloned()));

    table.clear();
    restore(&mut table, EntryHandle(3 | 1 << 24));
    // The slots before it are free.
    assert_eq!(table.insert(entry(0, 0, 0)).unwrap().0, 0);
    restore(&mut table, EntryHandle(2));
    restore(&mut table, EntryHandle(1));
    assert!(table.entries().eq(before.iter().cloned()));
    assert_eq!(table.insert(entry(4, 0, 0)).unwrap().0, 4);

    // The slot, or the key, is in use.
    table.delete(EntryHandle(1)).unwrap();
    table.insert(entry(5, 0, 0)).unwrap();
    assert_eq!(table.restore(EntryHandle(1), entry(1, 0, 0)), Ok(EntryHandle(5)));
    let duplicate = TableError::Duplicate { existing: EntryHandle(5) };
    assert_eq!(table.restore(EntryHandle(7), entry(1, 0, 0)), Err(duplicate));
}

#[test]
fn errors_change_nothing() {
    let mut table = Table::new(spec(2));
    table.insert(entry(1, 0x0a00_0000, 8)).unwrap();
    let before: Vec<_> = table.entries().collect();
    let check = |table: &mut Table, entry: Entry, code: &str, text: &str| {
        let error = table.insert(entry).unwrap_err();
        assert_eq!((error.code(), error.to_string().as_str()), (code, text));
        assert!(table.entries().eq(before.iter().cloned()));
    };
    check(
        &mut table,
        entry(1, 0x0a01_0203, 8),
        "DUPLICATE_ENTRY",
        "an entry with this key already exists: handle 0",
    );
    check(
        &mut table,
        entry(4096, 0, 0),
        "BAD_MATCH_KEY",
        "key field 0: found a value of 13 bits, expected at most 12",
    );
    check(
        &mut table,
        entry(1, 0, 33),
        "BAD_MATCH_KEY",
        "key field 1: found prefix length 33, expected at most 32",
    );
    let few = Entry { key: vec![KeyMatch::Exact(1u32.into())], ..entry(0, 0, 0) };
    check(&mut table, few, "BAD_MATCH_KEY", "found 1 match fields, expected 2");
    let kind =
        Entry { key: vec![KeyMatch::Exact(1u32.into()), KeyMatch::Exact(1u32.into())], ..entry(0, 0, 0) };
    check(&mut table, kind, "BAD_MATCH_KEY", "key field 1: found exact match, expected lpm");
    let with = |action, data: &[u64]| Entry {
        action: Action { action, data: data.iter().map(|v| BigUint::from(*v)).collect() },
        ..entry(2, 0, 0)
    };
    check(
        &mut table,
        with(2, &[]),
        "INVALID_ACTION_NAME",
        "found action 2, expected one of the table's 2 (numbered from 0)",
    );
    check(&mut table, with(1, &[1]), "BAD_ACTION_DATA", "action 1: found 1 parameters, expected 2");
    check(
        &mut table,
        with(1, &[512, 1]),
        "BAD_ACTION_DATA",
        "action 1: parameter 0: found a value of 10 bits, expected at most 9",
    );
    table.insert(entry(2, 0, 0)).unwrap();
    let full = table.insert(entry(3, 0, 0)).unwrap_err();
    assert_eq!(
        (full.code(), full.to_string().as_str()),
        ("TABLE_FULL", "the table is full: it has all of its 2 entries")
    );
    assert_eq!(table.delete(EntryHandle(5)).unwrap_err().code(), "INVALID_HANDLE");
    let modify = table.modify(EntryHandle(0), Action { action: 0, data: vec![1u32.into()] }).unwrap_err();
    assert_eq!(modify.code(), "BAD_ACTION_DATA");

    let mut keyless = Table::new(TableSpec { keys: vec![], ..spec(2) });
    assert_eq!(keyless.insert(Entry { key: vec![], ..entry(0, 0, 0) }).unwrap_err().code(), "NO_TABLE_KEY");
    let mut ranges =
        Table::new(TableSpec { keys: vec![KeySpec { width: 8, kind: MatchKind::Range }], ..spec(2) });
    let range = KeyMatch::Range { lo: 2u32.into(), hi: 1u32.into() };
    let error = ranges.insert(Entry { key: vec![range], ..entry(0, 0, 0) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "key field 0: found a range whose end is below its start, expected low <= high"
    );
}

#[test]
fn misses_name_the_nearest_entries() {
    let mut table = Table::new(spec(10));
    for (vlan, prefix) in [(1, 0x0a00_0000), (1, 0x0a80_0000), (2, 0x0a01_0000), (9, 0xc000_0000u32)] {
        table.insert(entry(vlan, prefix, 16)).unwrap();
    }
    let explanation = table.explain(&[1u32.into(), 0x0a01_0203u32.into()]);
    assert_eq!(explanation.hit, None);
    let near: Vec<u32> = explanation.nearest.iter().map(|near| near.handle.0).collect();
    assert_eq!(near, [0, 2, 1], "one field differs, in the last bits first");
    let fields: Vec<Option<String>> =
        explanation.nearest[0].fields.iter().map(|d| d.as_ref().map(ToString::to_string)).collect();
    assert_eq!(fields, [None, Some("found 0xa010203, expected prefix 0xa000000/16".to_string())]);

    table.insert(entry(1, 0x0a00_0000, 8)).unwrap();
    table.insert(entry(1, 0, 0)).unwrap();
    let hit = table.explain(&[1u32.into(), 0x0a01_0203u32.into()]).hit.unwrap();
    assert_eq!((hit.handle.0, hit.reason), (4, HitReason::LongestPrefix { prefix_len: 8, others: 1 }));
}

#[test]
fn structures_follow_from_the_shape() {
    use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
    let of = |keys: &[(u32, MatchKind)]| {
        structure_of(&TableSpec {
            keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
            ..spec(1)
        })
    };
    assert_eq!(of(&[]), Structure::Keyless);
    assert_eq!(of(&[(16, Exact)]), Structure::Direct);
    assert_eq!(of(&[(9, Exact), (7, Exact)]), Structure::Direct);
    assert_eq!(of(&[(9, Exact), (8, Exact)]), Structure::Quotient);
    assert_eq!(of(&[(48, Exact)]), Structure::Quotient);
    assert_eq!(of(&[(48, Exact), (1, Exact)]), Structure::Hash);
    assert_eq!(of(&[(32, Lpm)]), Structure::Lpm32);
    assert_eq!(of(&[(8, Lpm)]), Structure::Lpm32);
    for keys in [
        &[(33, Lpm)][..],
        &[(7, Lpm)],
        &[(32, Lpm), (8, Exact)],
        &[(32, Lpm), (8, Lpm)],
        &[(8, Ternary)],
        &[(8, Range)],
        &[(8, Optional)],
    ] {
        assert_eq!(of(keys), Structure::Generic, "{keys:?}");
    }
}
