//! Readers beside a writer see the old or the new state, never anything else.

use crate::patience::patiently;
use p4jet_tables::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn table(keys: &[(u32, MatchKind)], size: u32, row_per_entry: bool) -> Table {
    Table::new(TableSpec {
        keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![64, 64] }],
        size,
        row_per_entry,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    })
}

fn key_match(kind: MatchKind, value: u64, width: u32) -> KeyMatch {
    let value = num_bigint::BigUint::from(value);
    let ones = (num_bigint::BigUint::from(1u32) << width) - 1u32;
    match kind {
        MatchKind::Exact => KeyMatch::Exact(value),
        MatchKind::Lpm => KeyMatch::Lpm { value, prefix_len: width },
        MatchKind::Ternary => KeyMatch::Ternary { value, mask: ones },
        MatchKind::Range => KeyMatch::Range { lo: value.clone(), hi: value },
        MatchKind::Optional => KeyMatch::Optional(Some(value)),
    }
}

/// An action whose data contains the key, twice, and the number of changes of the entry.
fn action(key: u64, version: u64) -> Action {
    Action { action: 1, data: vec![(key << 32 | version).into(), (key << 32 | version).into()] }
}

/// Stops the readers also when the writer panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Key 7 is always present and modified all the time; keys 100 to 399 come and go; key 9 is never present.
fn toggle(keys: &[(u32, MatchKind)], row_per_entry: bool) {
    toggle_sized(keys, 600, row_per_entry);
}

fn toggle_sized(keys: &[(u32, MatchKind)], size: u32, row_per_entry: bool) {
    let mut table = table(keys, size, row_per_entry);
    let views = table.view_handle();
    let (stop, started) = (AtomicBool::new(false), AtomicU64::new(0));
    let width = keys[0].0;
    let entry = |key: u64, version| Entry {
        key: keys.iter().map(|(width, kind)| key_match(*kind, key, *width)).collect(),
        priority: 0,
        action: action(key, version),
    };
    let packed = |key: u64| {
        let mut limbs = vec![0u64; (width as usize * keys.len()).div_ceil(64)];
        for i in 0..keys.len() {
            let bit = i * width as usize;
            limbs[bit / 64] |= key << (bit % 64);
            if !bit.is_multiple_of(64) && bit % 64 + width as usize > 64 {
                limbs[bit / 64 + 1] |= key >> (64 - bit % 64);
            }
        }
        limbs
    };
    let fixed = table.insert(entry(7, 0)).unwrap();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for reader in 0..2 {
            let (views, stop, started, packed) = (views.clone(), &stop, &started, &packed);
            scope.spawn(move || {
                let mut last = 0;
                let mut n = reader;
                while !stop.load(Ordering::Relaxed) {
                    let guard = pin();
                    let view = views.get(&guard);
                    for _ in 0..32 {
                        n += 1;
                        let row = lookup_fast(view, &packed(7));
                        let words = view.row(row);
                        assert_eq!(words[0] as u32, 1, "key 7 is always there");
                        assert_eq!(words[1], words[2], "a mix of two versions");
                        assert_eq!(words[1] >> 32, 7, "the row of another entry");
                        assert!(words[1] as u32 >= last, "back from {last} to {}", words[1] as u32);
                        last = words[1] as u32;
                        let key = 100 + n % 300;
                        match lookup_fast(view, &packed(key)) {
                            0 => {}
                            row => {
                                let words = view.row(row);
                                assert_eq!(words[1], words[2], "a mix of two versions");
                                assert_eq!(words[1] >> 32, key, "the row of another entry");
                            }
                        }
                        assert_eq!(lookup_fast(view, &packed(9)), 0, "key 9 is never there");
                        let rows = view.rows_of(&[&packed(7), &packed(9)]);
                        assert_eq!(view.row(rows[0])[1] >> 32, 7, "the row of another entry, in a batch");
                        assert_eq!(rows[1], 0, "key 9 is never there, in a batch");
                    }
                    started.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut handles = std::collections::HashMap::new();
        let begin = Instant::now();
        let mut version = 0;
        // Fewer changes on a busy machine, where each may wait for readers.
        let all_changes =
            |version| version >= 2000 || (version >= 100 && begin.elapsed() > Duration::from_secs(10));
        while !all_changes(version) || started.load(Ordering::Relaxed) < 100 {
            assert!(begin.elapsed() < Duration::from_secs(60), "readers or writer do not get on");
            version += 1;
            patiently(|| table.modify(fixed, action(7, version)));
            let key = 100 + version * 7919 % 300;
            match handles.remove(&key) {
                Some(handle) => {
                    patiently(|| table.delete(handle));
                }
                None => {
                    handles.insert(key, patiently(|| table.insert(entry(key, version))));
                }
            }
            if version % 64 == 0 {
                table.publish();
            }
        }
    });
}

#[test]
fn exact_direct() {
    toggle(&[(12, MatchKind::Exact)], false);
}

#[test]
fn exact_hash() {
    toggle(&[(48, MatchKind::Exact)], false);
    toggle(&[(48, MatchKind::Exact), (48, MatchKind::Exact)], true);
}

#[test]
fn lpm() {
    toggle(&[(32, MatchKind::Lpm)], false);
    toggle(&[(16, MatchKind::Lpm)], true);
    toggle(&[(48, MatchKind::Lpm)], false);
    toggle(&[(128, MatchKind::Lpm)], true);
    toggle(&[(64, MatchKind::Exact), (64, MatchKind::Lpm)], false);
    // With a wide root.
    toggle_sized(&[(20, MatchKind::Exact), (20, MatchKind::Lpm)], 1 << 20, false);
    toggle_sized(&[(64, MatchKind::Lpm), (64, MatchKind::Exact)], 1 << 20, false);
}

#[test]
fn ternary() {
    toggle(&[(32, MatchKind::Ternary), (32, MatchKind::Range)], false);
    toggle(&[(16, MatchKind::Range)], true);
}

/// Routes that contain a key, and others next to them, are added and removed while one of 20 bits stays: the key always
/// matches that route or a longer one, both alone and in a batch.
#[test]
fn nested_prefixes() {
    nested(table(&[(128, MatchKind::Lpm)], 600, false), 20);
    // The root is wide, and the remaining route ends in it.
    nested(table(&[(128, MatchKind::Lpm), (16, MatchKind::Exact)], 1 << 20, false), 5);
}

fn nested(mut table: Table, fixed: u32) {
    let ones = u128::MAX;
    let exact = u64::MAX >> 48;
    let fields = table.spec().keys.len();
    let views = table.view_handle();
    let entry = |value: u128, len: u32| {
        let value = if len == 0 { 0 } else { value >> (128 - len) << (128 - len) };
        let action = Action { action: 1, data: vec![len.into(), ((value >> 64) as u64).into()] };
        let key = [KeyMatch::Lpm { value: value.into(), prefix_len: len }, KeyMatch::Exact(exact.into())];
        Entry { key: key[..fields].to_vec(), priority: 0, action }
    };
    table.insert(entry(ones, fixed)).unwrap();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (views, stop, rounds) = (views.clone(), &stop, &rounds);
        scope.spawn(move || {
            let key = &[u64::MAX, u64::MAX, exact][..1 + fields];
            while !stop.load(Ordering::Relaxed) {
                let guard = pin();
                let view = views.get(&guard);
                let mut rows = view.rows_of(&[key; 32]);
                rows.push(lookup_fast(view, key));
                for row in rows {
                    let words = view.row(row);
                    assert_eq!(words[0] as u32, 1, "there is always a route");
                    assert!(words[1] >= u64::from(fixed), "{} bits", words[1]);
                    let bits = words[1].min(64) as u32;
                    assert_eq!(words[2], u64::MAX << (64 - bits), "the row of another route");
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut present = std::collections::HashMap::new();
        let (begin, mut steps, mut random) = (Instant::now(), 0u64, 1u64);
        while (steps < 20_000 && begin.elapsed() < Duration::from_secs(20))
            || rounds.load(Ordering::Relaxed) < 100
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "readers or writer do not get on");
            steps += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let len = (random >> 33) as u32 % 129;
            // Most routes are next to the key: they differ in a bit near the end of the route.
            let beside = if len == 0 || random >> 62 == 0 {
                0
            } else {
                1 << (128 - len + (random >> 40) as u32 % 4).min(127)
            };
            if len == fixed && beside == 0 {
                continue;
            }
            match present.remove(&(len, beside)) {
                Some(handle) => {
                    patiently(|| table.delete(handle));
                }
                None => {
                    present.insert((len, beside), patiently(|| table.insert(entry(ones ^ beside, len))));
                }
            }
        }
    });
}

/// Adds entries one by one until the table has many times its initial size, and removes them again, while readers look up
/// keys that are present for certain and keys that never are.
fn grow_and_shrink(count: u64, specs: &[(u32, MatchKind)], key: impl Fn(u64) -> Vec<KeyMatch> + Sync) {
    let mut table = Table::new(TableSpec {
        keys: specs.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![64, 64] }],
        size: count as u32,
        row_per_entry: false,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    });
    // The packed key of an entry: keys here have fields of 64 bits, or one field.
    let packed = |i: u64| -> Vec<u64> {
        let values = key(i).into_iter().map(|key| match key {
            KeyMatch::Exact(value) | KeyMatch::Lpm { value, .. } | KeyMatch::Ternary { value, .. } => value,
            KeyMatch::Range { lo, .. } => lo,
            KeyMatch::Optional(value) => value.unwrap_or_default(),
        });
        let limbs = specs[0].0.div_ceil(64) as usize;
        values
            .flat_map(|value| {
                let mut digits = value.to_u64_digits();
                digits.resize(limbs, 0);
                digits
            })
            .collect()
    };
    // Entries from `first` to `end` are present; some next to them may be.
    let (first, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let views = table.view_handle();
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (views, stop, rounds, first, end, packed) =
            (views.clone(), &stop, &rounds, &first, &end, &packed);
        scope.spawn(move || {
            let mut random = 1u64;
            while !stop.load(Ordering::Relaxed) {
                let before = end.load(Ordering::Acquire);
                let guard = pin();
                let view = views.get(&guard);
                let mut found = Vec::new();
                for _ in 0..16 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    let i = (random >> 33) % before.max(1);
                    let key = packed(i);
                    let row = match random >> 62 {
                        0 => view.rows_of(&[&key])[0],
                        _ => lookup_fast(view, &key),
                    };
                    found.push((i, (row != 0).then(|| view.row(row))));
                    assert_eq!(lookup_fast(view, &packed(count + i)), 0, "key {} is never there", count + i);
                }
                // An entry that has not been removed yet was present all the time.
                let first = first.load(Ordering::Acquire);
                for (i, words) in found.into_iter().filter(|(i, ..)| before > 0 && *i >= first) {
                    let words =
                        words.unwrap_or_else(|| panic!("entry {i} of {first}..{before} is not there"));
                    assert_eq!((words[1], words[2]), (i, i % 7), "the row of another entry");
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut handles = Vec::new();
        for i in 0..count {
            let action = Action { action: 1, data: vec![i.into(), (i % 7).into()] };
            handles.push(patiently(|| {
                table.insert(Entry { key: key(i), priority: (i % 100) as u32, action: action.clone() })
            }));
            end.store(i + 1, Ordering::Release);
            if i % 4096 == 4095 {
                table.publish();
            }
        }
        for (i, handle) in handles.into_iter().enumerate() {
            first.store(i as u64 + 1, Ordering::Release);
            table.delete(handle).unwrap();
        }
        let begin = Instant::now();
        while rounds.load(Ordering::Relaxed) < 20 {
            assert!(begin.elapsed() < Duration::from_secs(60), "the reader does not get on");
            std::thread::yield_now();
        }
    });
}

/// Maps numbers to distinct numbers that look random.
fn mixed(i: u64) -> u64 {
    let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const MANY: u64 = if cfg!(debug_assertions) { 3_000 } else { 30_000 };

#[test]
fn exact_tables_grow() {
    // An odd number times each number of 48 bits: all products differ.
    let of_48 = |i: u64| vec![KeyMatch::Exact((i.wrapping_mul(0x9e37_79b9_7f4b) & ((1 << 48) - 1)).into())];
    grow_and_shrink(MANY, &[(48, MatchKind::Exact)], of_48);
    let two = |i: u64| vec![KeyMatch::Exact(mixed(i).into()), KeyMatch::Exact(i.into())];
    grow_and_shrink(MANY, &[(64, MatchKind::Exact), (64, MatchKind::Exact)], two);
}

#[test]
fn route_tables_grow() {
    let route = |value: u128, width: u32| vec![KeyMatch::Lpm { value: value.into(), prefix_len: width }];
    let of_32 = |i: u64| route(u128::from((i as u32).wrapping_mul(0x9e37_79b1)), 32);
    grow_and_shrink(MANY, &[(32, MatchKind::Lpm)], of_32);
    let of_128 = |i: u64| route(u128::from(mixed(i)) << 64 | u128::from(i), 128);
    grow_and_shrink(MANY, &[(128, MatchKind::Lpm)], of_128);
    let beside =
        |i: u64| vec![KeyMatch::Exact(i.into()), KeyMatch::Lpm { value: mixed(i).into(), prefix_len: 64 }];
    grow_and_shrink(5 * MANY, &[(64, MatchKind::Exact), (64, MatchKind::Lpm)], beside);
}

#[test]
fn access_lists_grow() {
    let rule = |i: u64| {
        let ternary = |value: u64| KeyMatch::Ternary { value: value.into(), mask: u64::MAX.into() };
        let range = KeyMatch::Range { lo: (i % 50).into(), hi: (i % 50 + i % 3).into() };
        vec![ternary(mixed(i)), ternary(mixed(i) >> 60 << 3), range]
    };
    let kinds = [(64, MatchKind::Ternary), (64, MatchKind::Ternary), (64, MatchKind::Range)];
    grow_and_shrink(MANY / 3, &kinds, rule);
}

/// A classifier under random changes beside readers. All rules match every key but differ in priority: a reader sees the rule
/// that was best before or after its lookup, or at some time in between.
#[test]
fn the_best_rule_wins_beside_readers() {
    let mut table = table(&[(32, MatchKind::Ternary), (16, MatchKind::Range)], 600, false);
    let views = table.view_handle();
    // The best priority after each change, in order; readers read the number of changes before and after a lookup.
    let bests: Vec<AtomicU64> = (0..60_001).map(|_| AtomicU64::new(0)).collect();
    let (stop, changes, rounds) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let key = |i: u64| {
        let mask = u32::MAX.checked_shl((i % 33) as u32).unwrap_or(0);
        let lo = 500 - i % 400;
        vec![
            KeyMatch::Ternary { value: (0xa5a5_a5a5 & mask).into(), mask: mask.into() },
            KeyMatch::Range { lo: lo.into(), hi: (lo + 900).into() },
        ]
    };
    let entry = |i: u64, priority: u32| Entry {
        key: key(i),
        priority,
        action: Action { action: 1, data: vec![priority.into(), i.into()] },
    };
    table.insert(entry(7, 50_000)).unwrap();
    bests[0].store(50_000, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (views, stop, changes, rounds, bests) = (views.clone(), &stop, &changes, &rounds, &bests);
        scope.spawn(move || {
            let key = [0xa5a5_a5a5 | 500 << 32];
            while !stop.load(Ordering::Relaxed) {
                let before = changes.load(Ordering::Acquire) as usize;
                let guard = pin();
                let view = views.get(&guard);
                let rows = [lookup_fast(view, &key), view.rows_of(&[key.as_slice(); 13])[12]];
                let found = rows.map(|row| view.row(row)[1]);
                // The change in progress may be visible already.
                let after = changes.load(Ordering::Acquire) as usize + 1;
                for found in found {
                    let possible = bests[before..=after].iter();
                    assert!(
                        possible.map(|best| best.load(Ordering::Acquire)).any(|best| best == found),
                        "{found} was not the best between changes {before} and {after}"
                    );
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut present = std::collections::BTreeMap::new();
        let (begin, mut random, mut change) = (Instant::now(), 1u64, 0usize);
        while (change < 20_000 && begin.elapsed() < Duration::from_secs(20))
            || (rounds.load(Ordering::Relaxed) < 100 && change < 59_000)
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "readers or writer do not get on");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let priority = 1 + (random >> 33) as u32 % 40_000;
            let many = present.len() > if random >> 63 == 0 { 20 } else { 500 };
            let gone = if many { present.keys().next().copied() } else { None };
            let old = gone.and_then(|gone| present.remove(&gone));
            if old.is_none() && present.contains_key(&priority) {
                continue;
            }
            let best_then = match old {
                Some(_) => present.keys().next().copied(),
                None => present.keys().next().copied().into_iter().chain([priority]).min(),
            };
            bests[change + 1].store(best_then.unwrap_or(50_000).into(), Ordering::Release);
            match old {
                Some(handle) => {
                    patiently(|| table.delete(handle));
                }
                None => {
                    present.insert(priority, patiently(|| table.insert(entry(random >> 40, priority))));
                }
            }
            change += 1;
            changes.store(change as u64, Ordering::Release);
        }
    });
}
