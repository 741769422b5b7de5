//! Readers beside a writer see what was or what is, never anything else.

use p4jet_tables::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn table(keys: &[(u32, MatchKind)], row_per_entry: bool) -> Table {
    Table::new(TableSpec {
        keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![64, 64] }],
        size: 600,
        row_per_entry,
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

/// The data says which key it is for, twice, and how often the entry changed.
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

/// Key 7 is always there and is modified all the time; keys 100 to 399 come and go; key 9 is never there.
fn toggle(keys: &[(u32, MatchKind)], row_per_entry: bool) {
    let mut table = table(keys, row_per_entry);
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
        while version < 2000 || started.load(Ordering::Relaxed) < 100 {
            assert!(begin.elapsed() < Duration::from_secs(60), "readers or writer do not get on");
            version += 1;
            table.modify(fixed, action(7, version)).unwrap();
            let key = 100 + version * 7919 % 300;
            match handles.remove(&key) {
                Some(handle) => {
                    table.delete(handle).unwrap();
                }
                None => {
                    handles.insert(key, table.insert(entry(key, version)).unwrap());
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
}

#[test]
fn ternary() {
    toggle(&[(32, MatchKind::Ternary), (32, MatchKind::Range)], false);
    toggle(&[(16, MatchKind::Range)], true);
}

/// Routes that contain a key come and go, and others beside them, while one of 20 bits stays: the key always has that or
/// a longer one, one key at a time and in a batch.
#[test]
fn nested_prefixes() {
    const FIXED: u32 = 20;
    let ones = u128::MAX;
    let mut table = table(&[(128, MatchKind::Lpm)], false);
    let views = table.view_handle();
    let entry = |value: u128, len: u32| {
        let value = if len == 0 { 0 } else { value >> (128 - len) << (128 - len) };
        let action = Action { action: 1, data: vec![len.into(), ((value >> 64) as u64).into()] };
        Entry { key: vec![KeyMatch::Lpm { value: value.into(), prefix_len: len }], priority: 0, action }
    };
    table.insert(entry(ones, FIXED)).unwrap();
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let (views, stop, rounds) = (views.clone(), &stop, &rounds);
        scope.spawn(move || {
            let key = [u64::MAX; 2];
            while !stop.load(Ordering::Relaxed) {
                let guard = pin();
                let view = views.get(&guard);
                let mut rows = view.rows_of(&[key.as_slice(); 32]);
                rows.push(lookup_fast(view, &key));
                for row in rows {
                    let words = view.row(row);
                    assert_eq!(words[0] as u32, 1, "there is always a route");
                    assert!(words[1] >= u64::from(FIXED), "{} bits", words[1]);
                    let bits = words[1].min(64) as u32;
                    assert_eq!(words[2], u64::MAX << (64 - bits), "the row of another route");
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mut present = std::collections::HashMap::new();
        let (begin, mut steps, mut random) = (Instant::now(), 0u64, 1u64);
        while steps < 20_000 || rounds.load(Ordering::Relaxed) < 100 {
            assert!(begin.elapsed() < Duration::from_secs(60), "readers or writer do not get on");
            steps += 1;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let len = (random >> 33) as u32 % 129;
            // Most beside the key: they differ in a bit near the end of the route.
            let beside = if len == 0 || random >> 62 == 0 {
                0
            } else {
                1 << (128 - len + (random >> 40) as u32 % 4).min(127)
            };
            if len == FIXED && beside == 0 {
                continue;
            }
            match present.remove(&(len, beside)) {
                Some(handle) => {
                    table.delete(handle).unwrap();
                }
                None => {
                    present.insert((len, beside), table.insert(entry(ones ^ beside, len)).unwrap());
                }
            }
        }
    });
}
