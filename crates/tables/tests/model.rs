//! Random tables under random changes: `lookup`, `lookup_fast` and a model that tries every entry agree.
//!
//! On a failure the output contains the seed: pass it to `run`. Blind spot: there is only one thread; `readers.rs` runs readers
//! beside the writer.

use num_bigint::BigUint;
use p4jet_tables::*;
use proptest::prelude::*;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    /// One of few different values, so that entries and keys match: some high bits, some low bits, sometimes any value.
    fn value(&mut self, width: u32) -> BigUint {
        let ones = (BigUint::from(1u32) << width) - 1u32;
        let any =
            (0..width.div_ceil(64)).fold(BigUint::default(), |v, _| v << 64 | BigUint::from(self.next()));
        match self.below(8) {
            0 => any & ones,
            1 => ones,
            2 => BigUint::default(),
            // Prefixes of such values differ first at any bit.
            3 | 4 => {
                let pattern = (&ones / 3u32) ^ (BigUint::from(1u32) << self.below(u64::from(width)));
                if self.below(2) == 0 {
                    return pattern;
                }
                pattern ^ (BigUint::from(1u32) << self.below(u64::from(width)))
            }
            _ => {
                let high = BigUint::from(self.below(4)) << width.saturating_sub(2);
                (high | BigUint::from(self.below(5))) & ones
            }
        }
    }

    fn key_match(&mut self, key: &KeySpec) -> KeyMatch {
        let width = key.width;
        let value = self.value(width);
        match key.kind {
            MatchKind::Exact => KeyMatch::Exact(value),
            MatchKind::Lpm => {
                let short = self.below(u64::from(width) + 1) as u32;
                // Rarely the shortest, because they take long in DIR-24-8.
                let shortest = if self.below(8) == 0 { self.below(2) as u32 } else { width / 2 };
                // Where tries go from one level to the next.
                let level =
                    (self.below(18) as u32 * 8 + self.below(3) as u32).saturating_sub(1).max(width / 3);
                let any = short.max(width / 3);
                let prefix_len = self.pick(&[shortest, width / 3, width - 1, width, any, level, level, any]);
                let prefix_len = prefix_len.min(width);
                KeyMatch::Lpm { value, prefix_len }
            }
            MatchKind::Ternary => {
                let low = (BigUint::from(1u32) << (width / 2)) - 1u32;
                let mask = match self.below(4) {
                    0 => BigUint::default(),
                    1 => (BigUint::from(1u32) << width) - 1u32,
                    2 => (BigUint::from(1u32) << width) - 1u32 - low,
                    _ => self.value(width),
                };
                KeyMatch::Ternary { value, mask }
            }
            MatchKind::Range => {
                let other = self.value(width);
                KeyMatch::Range { lo: value.clone().min(other.clone()), hi: value.max(other) }
            }
            MatchKind::Optional => KeyMatch::Optional((self.below(3) > 0).then_some(value)),
        }
    }

    fn action(&mut self, spec: &TableSpec) -> Action {
        let action = self.below(spec.actions.len() as u64) as u32;
        let widths = &spec.actions[action as usize].param_widths;
        Action { action, data: widths.iter().map(|width| self.value(*width)).collect() }
    }

    fn spec(&mut self) -> TableSpec {
        let widths = [1, 3, 8, 9, 12, 16, 20, 31, 32, 33, 48, 64, 65, 128];
        let key = |rng: &mut Rng, kind| KeySpec { width: rng.pick(&widths), kind };
        let count = 1 + self.below(4);
        use MatchKind::{Exact, Lpm, Optional, Range, Ternary};
        let wide = [33, 40, 48, 63, 64, 65, 127, 128];
        let mut keys: Vec<KeySpec> = match self.below(10) {
            0 => vec![key(self, Exact)],
            1 => vec![KeySpec { width: self.pick(&[8, 9, 16, 23, 24, 25, 31, 32]), kind: Lpm }],
            2 => (0..count).map(|_| key(self, Exact)).collect(),
            3 => vec![key(self, Exact), key(self, Lpm), key(self, Exact)],
            8 => vec![KeySpec { width: self.pick(&wide), kind: Lpm }],
            9 => {
                let mut keys = vec![KeySpec { width: self.pick(&wide), kind: Lpm }];
                let at = self.below(2) as usize;
                keys.insert(at, KeySpec { width: self.pick(&[1, 5, 12, 16]), kind: Exact });
                keys
            }
            4 => (0..count).map(|_| key(self, Lpm)).collect(),
            5 => (0..count).map(|_| key(self, Range)).collect(),
            _ => (0..count)
                .map(|_| {
                    let kind = self.pick(&[Exact, Lpm, Ternary, Range, Optional]);
                    key(self, kind)
                })
                .collect(),
        };
        if self.below(40) == 0 {
            keys.clear();
        }
        TableSpec {
            keys,
            actions: vec![
                ActionSpec { param_widths: vec![] },
                ActionSpec { param_widths: vec![9, 48] },
                ActionSpec { param_widths: vec![70] },
            ],
            size: self.pick(&[1, 5, 40, 400]),
            row_per_entry: self.below(3) == 0,
            idle_timeout: false,
            default: Action { action: 0, data: vec![] },
        }
    }
}

/// A model of a table, as short as possible.
#[derive(Default)]
struct Model {
    /// By age.
    entries: Vec<(EntryHandle, Entry)>,
}

fn cleared(mut key: Vec<KeyMatch>, spec: &TableSpec) -> Vec<KeyMatch> {
    for (field, key_spec) in key.iter_mut().zip(&spec.keys) {
        match field {
            KeyMatch::Lpm { value, prefix_len } => {
                let shift = key_spec.width - *prefix_len;
                *value = (&*value >> shift) << shift;
            }
            KeyMatch::Ternary { value, mask } => *value &= &*mask,
            _ => {}
        }
    }
    key
}

fn field_matches(field: &KeyMatch, width: u32, value: &BigUint) -> bool {
    match field {
        KeyMatch::Exact(v) => v == value,
        KeyMatch::Lpm { value: v, prefix_len } => {
            (0..*prefix_len).all(|i| v.bit(u64::from(width - 1 - i)) == value.bit(u64::from(width - 1 - i)))
        }
        KeyMatch::Ternary { value: v, mask } => v & mask == value & mask,
        KeyMatch::Range { lo, hi } => (lo..=hi).contains(&value),
        KeyMatch::Optional(v) => v.as_ref().is_none_or(|v| v == value),
    }
}

impl Model {
    fn lookup(&self, spec: &TableSpec, key: &[BigUint]) -> Option<EntryHandle> {
        let free = spec.keys.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm));
        let matching = self.entries.iter().filter(|(_, entry)| {
            entry.key.iter().zip(&spec.keys).zip(key).all(|((f, s), v)| field_matches(f, s.width, v))
        });
        // Of equal ones, `min_by_key` returns the first, which is the oldest.
        let best = matching.min_by_key(|(_, entry)| {
            if free {
                i64::from(entry.priority)
            } else {
                let len =
                    |k: &KeyMatch| if let KeyMatch::Lpm { prefix_len, .. } = k { *prefix_len } else { 0 };
                -entry.key.iter().map(|k| i64::from(len(k))).sum::<i64>()
            }
        });
        best.map(|(handle, _)| *handle)
    }
}

fn pack(spec: &TableSpec, key: &[BigUint]) -> Vec<u64> {
    let mut packed = BigUint::default();
    let mut at = 0;
    for (spec, value) in spec.keys.iter().zip(key) {
        packed |= value << at;
        at += spec.width;
    }
    let mut limbs = packed.to_u64_digits();
    limbs.resize(at.div_ceil(64).max(1) as usize, 0);
    limbs
}

/// Returns the words that a row must have.
fn row_words(action: &Action, spec: &TableSpec) -> Vec<u64> {
    let mut words = vec![u64::from(action.action)];
    for (value, width) in action.data.iter().zip(&spec.actions[action.action as usize].param_widths) {
        let mut limbs = value.to_u64_digits();
        limbs.resize(width.div_ceil(64) as usize, 0);
        words.extend(limbs);
    }
    words
}

/// Returns a key near an entry, or any key.
fn probe(rng: &mut Rng, spec: &TableSpec, model: &Model) -> Vec<BigUint> {
    let near = (!model.entries.is_empty() && rng.below(3) > 0)
        .then(|| &model.entries[rng.below(model.entries.len() as u64) as usize].1);
    (spec.keys.iter().enumerate())
        .map(|(i, key)| {
            let noise = rng.value(key.width);
            match near.map(|entry| &entry.key[i]) {
                Some(KeyMatch::Exact(v) | KeyMatch::Optional(Some(v))) if rng.below(10) > 0 => v.clone(),
                Some(KeyMatch::Lpm { value, prefix_len }) => {
                    value | (noise & ((BigUint::from(1u32) << (key.width - prefix_len)) - 1u32))
                }
                Some(KeyMatch::Ternary { value, mask }) => {
                    value | (noise & ((BigUint::from(1u32) << key.width) - 1u32 - mask))
                }
                Some(KeyMatch::Range { lo, hi }) => match rng.below(4) {
                    0 => lo.clone(),
                    1 => hi.clone(),
                    2 if *lo > BigUint::default() => lo - 1u32,
                    _ => noise,
                },
                _ => noise,
            }
        })
        .collect()
}

fn check_lookups(rng: &mut Rng, table: &Table, views: &ViewHandle, model: &Model, count: u64) {
    let spec = table.spec();
    let guard = pin();
    let view = views.get(&guard);
    let mut batch = Vec::new();
    for _ in 0..count {
        let key = probe(rng, spec, model);
        let expected = model.lookup(spec, &key);
        let found = table.lookup(&key);
        assert_eq!(found, expected, "lookup of {key:x?}");
        let action =
            found.map_or(table.default_action().clone(), |h| table.get(h).expect("it is there").action);
        let row_of_found = found.map_or(0, |h| table.row_of(h));
        assert_eq!(table.look_up_row(&key), (row_of_found, action), "row of {key:x?}");
        let row = lookup_fast(view, &pack(spec, &key));
        assert_eq!(row, found.map_or(0, |h| table.row_of(h)), "fast lookup of {key:x?} ({found:?})");
        let limbs = pack(spec, &key);
        // SAFETY: the view is guarded and the key has the right number of limbs.
        #[allow(unsafe_code)]
        let called = unsafe { (view.lookup)(view, limbs.as_ptr()) };
        assert_eq!(called, row, "through the function pointer");
        batch.push((limbs, row));
        if rng.below(8) > 0 {
            continue;
        }
        let explained = table.explain(&key);
        assert_eq!(explained.hit.map(|hit| hit.handle), expected);
        assert_eq!(explained.nearest.is_empty(), expected.is_some() || model.entries.is_empty());
        for near in explained.nearest {
            assert!(near.fields.iter().any(Option::is_some), "an entry that matches is no miss");
        }
    }
    for part in batch.chunks(1 + rng.below(70) as usize) {
        let keys: Vec<&[u64]> = part.iter().map(|(key, _)| key.as_slice()).collect();
        let expected: Vec<u32> = part.iter().map(|(_, row)| *row).collect();
        assert_eq!(view.rows_of(&keys), expected, "as a batch");
    }
    for (handle, entry) in model.entries.iter().take(if count > 2 { usize::MAX } else { 3 }) {
        let row = view.row(table.row_of(*handle));
        let mut words = row_words(&entry.action, spec);
        if spec.row_per_entry {
            words[0] |= u64::from(handle.0 & 0xff_ffff) << 32;
            let row = table.row_of(*handle) % (spec.size + 1);
            assert_eq!(row, (handle.0 & 0xff_ffff) + 1, "rows of an entry differ by multiples of size + 1");
        }
        assert_eq!(row[..words.len()], words);
    }
    let default = view.row(view.default_row.load(std::sync::atomic::Ordering::Acquire));
    let mut words = row_words(table.default_action(), spec);
    let miss = if words.len() == 1 { words[0] } else { Action::DEFAULT.into() };
    assert_eq!(view.row(0)[0], miss);
    words[0] |= default[0] >> 32 << 32;
    assert_eq!(default[..words.len()], words);
}

fn run(seed: u64, steps: u32) {
    let mut rng = Rng(seed);
    let spec = rng.spec();
    let mut table = Table::new(spec.clone());
    let views = table.view_handle();
    let mut model = Model::default();
    let inserting = 3 + rng.below(5);
    for step in 0..steps {
        let at = (!model.entries.is_empty()).then(|| rng.below(model.entries.len() as u64) as usize);
        match (rng.below(10), at) {
            (0, Some(at)) => {
                let action = rng.action(&spec);
                table.modify(model.entries[at].0, action.clone()).unwrap();
                model.entries[at].1.action = action;
            }
            (1, _) => {
                let action = rng.action(&spec);
                table.set_default(action.clone()).unwrap();
                assert_eq!(*table.default_action(), action);
            }
            (2, _) if rng.below(20) == 0 => {
                table.clear();
                model.entries.clear();
                table.reset_default().unwrap();
            }
            (n, Some(at)) if n >= inserting => {
                let (handle, entry) = model.entries.remove(at);
                assert_eq!(table.delete(handle).unwrap(), entry);
                assert_eq!(table.delete(handle), Err(TableError::InvalidHandle(handle)));
            }
            _ => {
                let key: Vec<KeyMatch> = spec.keys.iter().map(|key| rng.key_match(key)).collect();
                let free = spec.keys.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm));
                let priority = if free { rng.below(4) as u32 } else { 0 };
                let entry = Entry { key: key.clone(), priority, action: rng.action(&spec) };
                let stored = Entry { key: cleared(key.clone(), &spec), ..entry.clone() };
                let same = model.entries.iter().find(|(_, e)| e.key == stored.key && e.priority == priority);
                assert_eq!(table.find(&key, priority), same.map(|(h, _)| *h).filter(|_| !key.is_empty()));
                let expected = match same {
                    _ if spec.keys.is_empty() => Err(TableError::NoKey),
                    Some((handle, _)) => Err(TableError::Duplicate { existing: *handle }),
                    None if model.entries.len() == spec.size as usize => {
                        Err(TableError::Full { size: spec.size })
                    }
                    None => Ok(stored),
                };
                match (table.insert(entry), expected) {
                    (Ok(handle), Ok(stored)) => {
                        assert!(model.entries.iter().all(|(h, _)| *h != handle));
                        assert_eq!(table.get(handle).as_ref(), Some(&stored));
                        model.entries.push((handle, stored));
                    }
                    (found, expected) => assert_eq!(found.err(), expected.err()),
                }
            }
        }
        assert_eq!(table.len(), model.entries.len());
        check_lookups(&mut rng, &table, &views, &model, if step % 16 == 0 { 10 } else { 2 });
    }
    let mut listed = model.entries.clone();
    listed.sort_by_key(|(h, _)| h.0 & 0xff_ffff);
    assert_eq!(table.entries().collect::<Vec<_>>(), listed);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]
    #[test]
    fn agree(seed in any::<u64>(), steps in 1u32..400) {
        run(seed, steps);
    }
}

/// Routes that share all but two bytes: they are in few nodes of a trie, and cover and uncover each other.
fn run_prefixes(seed: u64) {
    let mut rng = Rng(seed);
    let width = rng.pick(&[24, 32, 33, 40, 48, 63, 64, 65, 127, 128]);
    let exact = rng.pick(&[0, 0, 3, 15, 16, 16, 20, 24, 32, 64, 130]);
    let lpm = KeySpec { width, kind: MatchKind::Lpm };
    let mut keys = vec![lpm];
    if exact > 0 {
        keys.insert(rng.below(2) as usize, KeySpec { width: exact, kind: MatchKind::Exact });
    }
    let spec = TableSpec {
        keys,
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![16] }],
        // Large tables with many exact bits have a wide root.
        size: rng.pick(&[400, 1 << 20]),
        row_per_entry: rng.below(2) == 0,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    };
    // The bytes that differ are adjacent, aligned to a byte of the key or nearly so.
    let high =
        (u64::from(width) - 8 - rng.below(u64::from(width) / 8 - 1) * 8 + rng.below(2)).min(width as u64 - 8);
    let base = (BigUint::from(rng.next()) << 64 | BigUint::from(rng.next()))
        & ((BigUint::from(1u32) << width) - 1u32);
    let few = 1 + rng.below(3);
    let value = |rng: &mut Rng| {
        let first = rng.below(1 << (2 * few)) << (8 - 2 * few);
        let second = if rng.below(2) == 0 { rng.below(256) } else { rng.pick(&[0, 1, 128, 255]) };
        let bits = BigUint::from(first << 8 | second) << high.saturating_sub(8);
        (&base ^ bits) & ((BigUint::from(1u32) << width) - 1u32)
    };
    let (from, most) = (width - high as u32 - 8, rng.pick(&[4, 12, 40, 300]));
    let mut table = Table::new(spec.clone());
    let views = table.view_handle();
    let mut model = Model::default();
    for _ in 0..400 {
        let at = (!model.entries.is_empty()).then(|| rng.below(model.entries.len() as u64) as usize);
        let action = Action { action: 1, data: vec![rng.below(1 << 16).into()] };
        match (rng.below(8), at) {
            (0, Some(at)) => {
                table.modify(model.entries[at].0, action.clone()).unwrap();
                model.entries[at].1.action = action;
            }
            (n, Some(at)) if n < 4 || model.entries.len() >= most => {
                let (handle, entry) = model.entries.remove(at);
                assert_eq!(table.delete(handle).unwrap(), entry);
            }
            _ => {
                let len = if rng.below(6) == 0 {
                    rng.below(u64::from(width) + 1) as u32
                } else {
                    from + rng.below(17) as u32
                };
                let key = spec.keys.iter().map(|key| match key.kind {
                    MatchKind::Lpm => KeyMatch::Lpm { value: value(&mut rng), prefix_len: len.min(width) },
                    _ => KeyMatch::Exact(rng.pick(&[5u32, 5, 5, 4]).into()),
                });
                let entry = Entry { key: cleared(key.collect(), &spec), priority: 0, action };
                match table.insert(entry.clone()) {
                    Ok(handle) => model.entries.push((handle, entry)),
                    Err(error) => assert!(matches!(error, TableError::Duplicate { .. }), "{error}"),
                }
            }
        }
        let keys: Vec<Vec<BigUint>> = (0..12)
            .map(|_| {
                let part = |rng: &mut Rng, key: &KeySpec| match key.kind {
                    MatchKind::Lpm => value(rng),
                    _ => rng.pick(&[5u32, 5, 5, 4]).into(),
                };
                spec.keys.iter().map(|key| part(&mut rng, key)).collect()
            })
            .collect();
        let packed: Vec<Vec<u64>> = keys.iter().map(|key| pack(&spec, key)).collect();
        let guard = pin();
        let view = views.get(&guard);
        let rows = view.rows_of(&packed.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for ((key, packed), row) in keys.iter().zip(&packed).zip(rows) {
            let expected = model.lookup(&spec, key).map_or(0, |handle| table.row_of(handle));
            assert_eq!(row, expected, "{key:x?} in a batch");
            assert_eq!(lookup_fast(view, packed), expected, "{key:x?}");
        }
    }
    // Deleted routes leave nothing behind.
    for (handle, _) in model.entries.drain(..) {
        table.delete(handle).unwrap();
    }
    let key: Vec<BigUint> = spec.keys.iter().map(|_| BigUint::default()).collect();
    assert_eq!(lookup_fast(views.get(&pin()), &pack(&spec, &key)), 0);
}

#[test]
fn prefixes_that_meet_agree() {
    (0..400).for_each(run_prefixes);
}

#[test]
fn large_tables_agree() {
    for (seed, keys) in [
        vec![KeySpec { width: 48, kind: MatchKind::Exact }],
        vec![KeySpec { width: 32, kind: MatchKind::Lpm }],
        vec![KeySpec { width: 128, kind: MatchKind::Lpm }],
        vec![KeySpec { width: 64, kind: MatchKind::Exact }, KeySpec { width: 64, kind: MatchKind::Exact }],
        vec![KeySpec { width: 16, kind: MatchKind::Exact }, KeySpec { width: 32, kind: MatchKind::Lpm }],
        vec![KeySpec { width: 128, kind: MatchKind::Lpm }, KeySpec { width: 16, kind: MatchKind::Exact }],
    ]
    .into_iter()
    .enumerate()
    {
        let mut rng = Rng(seed as u64);
        let spec = TableSpec {
            size: if keys.len() == 1 { 30_000 } else { 1 << 20 },
            keys,
            actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9] }],
            row_per_entry: seed % 2 == 1,
            idle_timeout: false,
            default: Action { action: 0, data: vec![] },
        };
        let mut table = Table::new(spec.clone());
        let mut handles = Vec::new();
        for _ in 0..20_000 {
            let action = Action { action: 1, data: vec![rng.below(512).into()] };
            let key = spec.keys.iter().map(|key| {
                let value = BigUint::from(rng.next()) << 64 | BigUint::from(rng.next());
                let value = value & ((BigUint::from(1u32) << key.width) - 1u32);
                match key.kind {
                    MatchKind::Lpm => {
                        KeyMatch::Lpm { value, prefix_len: rng.below(u64::from(key.width) + 1) as u32 }
                    }
                    _ => KeyMatch::Exact(value),
                }
            });
            if let Ok(handle) = table.insert(Entry { key: key.collect(), priority: 0, action }) {
                handles.push(handle);
            }
            if rng.below(4) == 0 {
                let at = rng.below(handles.len() as u64) as usize;
                table.delete(handles.swap_remove(at)).unwrap();
            }
        }
        let views = table.view_handle();
        let all: Vec<(EntryHandle, Entry)> = table.entries().collect();
        assert_eq!(all.len(), handles.len());
        let model = Model { entries: all };
        for _ in 0..20_000 {
            let key = probe(&mut rng, &spec, &model);
            // Pins only briefly: epochs belong to the whole process, and other tests wait for readers.
            let row = lookup_fast(views.get(&pin()), &pack(&spec, &key));
            assert_eq!(row, table.lookup(&key).map_or(0, |h| table.row_of(h)), "{key:x?}");
        }
        assert!(table.memory_bytes() > 0);
    }
}

/// Checks that `lookup` and `lookup_fast` agree on a table of rules with random actions, while some rules are removed.
fn check_rules(
    keys: &[(u32, MatchKind)],
    rules: impl Iterator<Item = (Vec<KeyMatch>, u32)>,
    lookups: u64,
) -> Table {
    let mut rng = Rng(lookups);
    let spec = TableSpec {
        keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
        actions: vec![ActionSpec { param_widths: vec![16] }],
        size: 10_000,
        row_per_entry: true,
        idle_timeout: false,
        default: Action { action: 0, data: vec![0u32.into()] },
    };
    let mut table = Table::new(spec.clone());
    let views = table.view_handle();
    let mut handles = Vec::new();
    for (key, priority) in rules {
        let action = Action { action: 0, data: vec![rng.below(1 << 16).into()] };
        handles.extend(table.insert(Entry { key, priority, action }));
        if rng.below(4) == 0 {
            let at = rng.below(handles.len() as u64) as usize;
            table.delete(handles.swap_remove(at)).unwrap();
        }
    }
    let model = Model { entries: table.entries().collect() };
    for _ in 0..lookups {
        let key = probe(&mut rng, &spec, &model);
        let found = table.lookup(&key).map_or(0, |h| table.row_of(h));
        let packed = pack(&spec, &key);
        let guard = pin();
        assert_eq!(views.get(&guard).rows_of(&[&packed, &packed]), [found; 2], "{key:x?}");
    }
    table
}

fn range(lo: u64, hi: u64) -> KeyMatch {
    KeyMatch::Range { lo: lo.into(), hi: hi.into() }
}

#[test]
fn access_lists_agree() {
    use MatchKind::{Range, Ternary};
    let mut rng = Rng(5);
    let mut networks = vec![(0u64, 0u32)];
    for _ in 0..400 {
        let (value, len) = networks[rng.below(networks.len() as u64) as usize];
        let longer = (len + 1 + rng.below(12) as u32).min(32);
        let mask = prefix(longer) & !prefix(len);
        networks.push((value | rng.next() & mask, longer));
    }
    fn prefix(len: u32) -> u64 {
        0xffff_ffff << (32 - len) & 0xffff_ffff
    }
    let keys = [(32, Ternary), (32, Ternary), (8, Ternary), (16, Range), (16, Range)];
    let rules = (0..4000).map(|i| {
        let mut address = || {
            let (value, len) = rng.pick(&networks);
            KeyMatch::Ternary { value: value.into(), mask: prefix(len).into() }
        };
        let (source, destination) = (address(), address());
        let port = rng.below(3000);
        let ports = [range(0, 65535), range(port, port), range(1024, 65535), range(port, port + 200)];
        let protocol = rng.pick(&[(0u32, 0u32), (6, 255), (17, 255)]);
        let protocol = KeyMatch::Ternary { value: protocol.0.into(), mask: protocol.1.into() };
        let (sport, dport) = (&ports[rng.below(4) as usize], &ports[rng.below(4) as usize]);
        (vec![source, destination, protocol, sport.clone(), dport.clone()], i / 2)
    });
    check_rules(&keys, rules, 3000);
}

/// A table so large that the keys of a batch are searched together.
#[test]
fn large_access_lists_agree() {
    let mut rng = Rng(7);
    let kinds = [(32, MatchKind::Ternary), (32, MatchKind::Ternary), (16, MatchKind::Range)];
    let spec = TableSpec {
        keys: kinds.map(|(width, kind)| KeySpec { width, kind }).to_vec(),
        actions: vec![ActionSpec { param_widths: vec![] }],
        size: 110_000,
        row_per_entry: true,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    };
    let mut table = Table::new(spec.clone());
    for i in 0..110_000 {
        let mut address = || {
            let mask = 0xffff_ffffu64 << rng.pick(&[0, 0, 8, 8, 16, 32]) & 0xffff_ffff;
            KeyMatch::Ternary { value: (rng.next() & 0x1f3f_071f & mask).into(), mask: mask.into() }
        };
        let (source, destination) = (address(), address());
        let port = rng.below(60_000);
        let ports = rng.pick(&[(port, port), (port, port + 500), (0, 65535)]);
        let key = vec![source, destination, range(ports.0, ports.1)];
        let _ = table.insert(Entry { key, priority: i / 3, action: Action { action: 0, data: vec![] } });
    }
    let model = Model { entries: table.entries().collect() };
    let views = table.view_handle();
    for round in 0..300 {
        let keys: Vec<_> = (0..1 + rng.below(64)).map(|_| probe(&mut rng, &spec, &model)).collect();
        let packed: Vec<_> = keys.iter().map(|key| pack(&spec, key)).collect();
        let guard = pin();
        let view = views.get(&guard);
        let rows = view.rows_of(&packed.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(rows, packed.iter().map(|key| lookup_fast(view, key)).collect::<Vec<_>>());
        if round < 50 {
            assert_eq!(rows[0], table.lookup(&keys[0]).map_or(0, |h| table.row_of(h)));
        }
    }
}

/// Rules that no structure separates well: time and memory stay bounded.
#[test]
fn hostile_rules_agree() {
    use MatchKind::{Range, Ternary};
    let mut rng = Rng(6);
    let two_ranges = [(16, Range), (16, Range)];
    let nested = (0..4000).map(|i| (vec![range(i, 65535 - i), range(4000 - i, 61000 + i)], (i % 7) as u32));
    let same = (0..4000).map(|i| (vec![range(0, 65535), range(5, 70)], 4000 - i));
    let masks = (0..4000).map(|i| {
        let (value, mask) = (BigUint::from(rng.next()), BigUint::from(rng.next() & rng.next()));
        (vec![KeyMatch::Ternary { value: value & &mask, mask }], i)
    });
    let tables = [
        check_rules(&two_ranges, nested, 500),
        check_rules(&two_ranges, same, 500),
        check_rules(&[(64, Ternary)], masks, 500),
    ];
    for table in tables {
        let each = table.memory_bytes() / table.len();
        assert!(each < 4000, "{each} bytes for each entry");
    }
}
