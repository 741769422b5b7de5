//! Every lookup sees one state. Readers look up while a writer changes entries, and each reads a common clock before and
//! after what it does. Afterwards a plain model gives each key's answer after each change, and each lookup must have
//! returned the answer of a state that the table had between its two times. In addition, lookups of one key never go
//! back in time: if one has ended before another starts, the other does not see an older state.
//!
//! Each structure is tested alone and beside threads that only use processor time, so that readers and the writer are
//! interrupted in the middle of their work. `P4JET_HISTORY_MS` sets how long each of the two runs takes.

#[path = "history/checker.rs"]
mod checker;

use checker::{Look, Timeline, check};
use num_bigint::BigUint;
use p4jet_tables::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const READERS: usize = 2;
/// Maximum number of lookups that a reader records in a round.
const LOOKS_MAX: usize = 200_000;
/// Maximum time for which a change may be refused because readers do not pass.
const REFUSED_MAX: Duration = Duration::from_secs(60);

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A structure that is looked up and changed at the same time.
trait Subject: Sync {
    type Writer: Send;
    type Op: Sync;

    fn keys(&self) -> usize;

    /// An empty structure.
    fn start(&self) -> (Self::Writer, ViewHandle);

    /// Returns the changes to make, in order, and each key's answers after them according to the model.
    fn plan(&self, random: &mut Random) -> (Vec<Self::Op>, Vec<Timeline>);

    fn change(&self, writer: &mut Self::Writer, op: &Self::Op) -> Result<(), TableError>;

    /// Looks up several keys.
    fn look(&self, view: &View, keys: &[usize], found: &mut Vec<u64>, together: bool);
}

/// Runs readers beside a writer once.
fn round(subject: &impl Subject, random: &mut Random) -> Result<usize, String> {
    let (ops, timelines) = subject.plan(random);
    let (mut writer, views) = subject.start();
    let (clock, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let (changes, looks) = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (views, stop, tick) = (views.clone(), &stop, &tick);
                let mut random = Random(random.0 ^ reader as u64);
                scope.spawn(move || {
                    let mut looks = Vec::new();
                    let mut found = Vec::new();
                    while !stop.load(Ordering::Relaxed) && looks.len() < LOOKS_MAX {
                        let begin = tick();
                        let guard = pin();
                        let view = views.get(&guard);
                        for _ in 0..2 {
                            let together = random.below(4) == 0;
                            let count = if together { 13 } else { 1 };
                            let keys: Vec<usize> = (0..count).map(|_| random.below(subject.keys())).collect();
                            found.clear();
                            subject.look(view, &keys, &mut found, together);
                            let end = tick();
                            let found = keys.iter().zip(&found);
                            looks.extend(found.map(|(key, found)| Look {
                                key: *key,
                                begin,
                                end,
                                found: *found,
                            }));
                        }
                    }
                    looks
                })
            })
            .collect();
        let mut changes = Vec::with_capacity(ops.len());
        for op in &ops {
            let begin = tick();
            let since = Instant::now();
            while let Err(error) = subject.change(&mut writer, op) {
                assert_eq!(error, TableError::Busy);
                assert!(since.elapsed() < REFUSED_MAX, "readers do not pass");
            }
            changes.push((begin, tick()));
        }
        stop.store(true, Ordering::Relaxed);
        let looks: Vec<Look> =
            readers.into_iter().flat_map(|reader| reader.join().expect("no panic")).collect();
        (changes, looks)
    });
    let count = looks.len();
    check(&timelines, &changes, looks).map(|()| count)
}

/// Runs rounds for a while, first alone and then beside busy threads.
fn all_see_one_state(subject: impl Subject) {
    let ms = std::env::var("P4JET_HISTORY_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(300);
    let seed = std::process::id().into();
    let mut random = Random(seed);
    for busy in [0, std::thread::available_parallelism().map_or(2, |n| n.get())] {
        let stop = AtomicBool::new(false);
        let checked = std::thread::scope(|scope| {
            for _ in 0..busy {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let (start, mut checked) = (Instant::now(), Ok(0));
            while checked.is_ok() && start.elapsed() < Duration::from_millis(ms) {
                checked = round(&subject, &mut random);
            }
            stop.store(true, Ordering::Relaxed);
            checked
        });
        if let Err(error) = checked {
            panic!("seed {seed}, beside {busy} busy threads: {error}");
        }
    }
}

// A table.

/// Entries that are added, removed and changed, and keys that some of them match.
struct Entries {
    specs: Vec<(u32, MatchKind)>,
    size: u32,
    row_per_entry: bool,
    /// Keys with priorities.
    pool: Vec<(Vec<KeyMatch>, u32)>,
    keys: Vec<Vec<u64>>,
    /// Entries for other keys, which make the structure grow.
    others: Vec<Vec<KeyMatch>>,
    ops: usize,
    /// One of this many changes concerns the default action.
    default_every: usize,
}

enum Op {
    Insert(usize, u64),
    Modify(usize, u64),
    Delete(usize),
    Default(u64),
    InsertOther(usize),
    DeleteOther(usize),
    Publish,
}

struct Writer {
    table: Table,
    handles: Vec<Option<EntryHandle>>,
    others: Vec<Option<EntryHandle>>,
}

/// Marks the answer of a default action without data for a key that no entry matches.
const NO_DATA: u64 = 1 << 40;
/// An answer that no state has.
const MIXED: u64 = u64::MAX;

/// An action whose data contains the version twice.
fn action(version: u64) -> Action {
    Action { action: 1, data: vec![version.into(), version.into()] }
}

fn default_action(version: u64) -> Action {
    match version % 3 {
        0 => Action { action: 0, data: vec![] },
        1 => Action { action: 2, data: vec![] },
        _ => action(version),
    }
}

fn default_answer(version: u64) -> u64 {
    match version % 3 {
        0 => NO_DATA,
        1 => NO_DATA + 2,
        _ => version,
    }
}

fn answer_of(words: &[u64]) -> u64 {
    match words[0] as u32 {
        1 if words[1] == words[2] => words[1],
        1 => MIXED,
        other => NO_DATA + u64::from(other),
    }
}

fn actions() -> Vec<ActionSpec> {
    [vec![], vec![64, 64], vec![]].map(|param_widths| ActionSpec { param_widths }).into()
}

fn matches(field: &KeyMatch, width: u32, value: u64) -> bool {
    let value = BigUint::from(value);
    match field {
        KeyMatch::Exact(is) | KeyMatch::Optional(Some(is)) => *is == value,
        KeyMatch::Optional(None) => true,
        KeyMatch::Lpm { value: is, prefix_len } => {
            is >> (width - prefix_len) == value >> (width - prefix_len)
        }
        KeyMatch::Ternary { value: is, mask } => *is == value & mask,
        KeyMatch::Range { lo, hi } => *lo <= value && value <= *hi,
    }
}

/// The smallest wins.
fn rank(key: &[KeyMatch], priority: u32, age: usize) -> (u64, usize) {
    let is_free = |field: &KeyMatch| !matches!(field, KeyMatch::Exact(_) | KeyMatch::Lpm { .. });
    if key.iter().any(is_free) {
        return (priority.into(), age);
    }
    let lens =
        key.iter().map(|field| if let KeyMatch::Lpm { prefix_len, .. } = field { *prefix_len } else { 0 });
    (1000 - u64::from(lens.sum::<u32>()), age)
}

impl Entries {
    fn packed(&self, key: &[u64]) -> Vec<u64> {
        let bits: u32 = self.specs.iter().map(|(width, _)| width).sum();
        let mut packed = BigUint::default();
        for (value, (width, _)) in key.iter().zip(&self.specs).rev() {
            packed = (packed << *width) | BigUint::from(*value);
        }
        let mut limbs = packed.to_u64_digits();
        limbs.resize(bits.div_ceil(64).max(1) as usize, 0);
        limbs
    }
}

impl Subject for (Entries, Vec<Vec<u64>>) {
    type Writer = Writer;
    type Op = Op;

    fn keys(&self) -> usize {
        self.0.keys.len()
    }

    fn start(&self) -> (Writer, ViewHandle) {
        let entries = &self.0;
        let table = Table::new(TableSpec {
            keys: entries.specs.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
            actions: actions(),
            size: entries.size,
            row_per_entry: entries.row_per_entry,
            idle_timeout: false,
            default: default_action(0),
        });
        let views = table.view_handle();
        let handles = vec![None; entries.pool.len()];
        (Writer { table, handles, others: vec![None; entries.others.len()] }, views)
    }

    fn plan(&self, random: &mut Random) -> (Vec<Op>, Vec<Timeline>) {
        let entries = &self.0;
        let fits = |entry: &(Vec<KeyMatch>, u32), key: &[u64]| {
            let fields = entry.0.iter().zip(key).zip(&entries.specs);
            fields.into_iter().all(|((field, value), (width, _))| matches(field, *width, *value))
        };
        let of_key: Vec<Vec<usize>> = entries
            .keys
            .iter()
            .map(|key| (0..entries.pool.len()).filter(|i| fits(&entries.pool[*i], key)).collect())
            .collect();
        let mut timelines = vec![Timeline::default(); entries.keys.len()];
        // Versions and ages of the entries.
        let mut present: Vec<Option<(u64, usize)>> = vec![None; entries.pool.len()];
        let (mut others, mut default, mut ops) = (vec![false; entries.others.len()], 0, Vec::new());
        let mut filling = 0;
        let answer = |present: &[Option<(u64, usize)>], of: &[usize], default: u64| {
            let found = of.iter().filter_map(|i| {
                let (version, age) = present[*i]?;
                let (key, priority) = &entries.pool[*i];
                Some((rank(key, *priority, age), version))
            });
            found.min().map_or(default_answer(default), |(_, version)| version)
        };
        for (timeline, of) in timelines.iter_mut().zip(&of_key) {
            timeline.note(0, answer(&present, of, default));
        }
        while ops.len() < entries.ops {
            let version = ops.len() as u64 + 1;
            let op = match random.below(8) {
                0 if random.below(200) == 0 => Op::Publish,
                0..=3 if !others.is_empty() => {
                    // Adds all of them in order, then removes them in order.
                    let i = filling % others.len();
                    filling += 1;
                    others[i] = !others[i];
                    if others[i] { Op::InsertOther(i) } else { Op::DeleteOther(i) }
                }
                _ if random.below(entries.default_every) == 0 => {
                    default = version;
                    Op::Default(version)
                }
                _ => {
                    let i = random.below(entries.pool.len());
                    match &mut present[i] {
                        Some(_) if random.below(2) == 0 => {
                            present[i] = None;
                            Op::Delete(i)
                        }
                        Some((is, _)) => {
                            *is = version;
                            Op::Modify(i, version)
                        }
                        none => {
                            *none = Some((version, ops.len()));
                            Op::Insert(i, version)
                        }
                    }
                }
            };
            ops.push(op);
            for (timeline, of) in timelines.iter_mut().zip(&of_key) {
                timeline.note(ops.len(), answer(&present, of, default));
            }
        }
        (ops, timelines)
    }

    fn change(&self, writer: &mut Writer, op: &Op) -> Result<(), TableError> {
        let Writer { table, handles, others } = writer;
        match *op {
            Op::Insert(i, version) => {
                let (key, priority) = self.0.pool[i].clone();
                handles[i] = Some(table.insert(Entry { key, priority, action: action(version) })?);
            }
            Op::Modify(i, version) => table.modify(handles[i].expect("it is there"), action(version))?,
            Op::Delete(i) => {
                table.delete(handles[i].expect("it is there"))?;
                handles[i] = None;
            }
            Op::Default(version) => table.set_default(default_action(version))?,
            Op::InsertOther(i) => {
                let entry = Entry { key: self.0.others[i].clone(), priority: 5, action: action(1) };
                others[i] = Some(table.insert(entry)?);
            }
            Op::DeleteOther(i) => {
                table.delete(others[i].expect("it is there"))?;
                others[i] = None;
            }
            Op::Publish => table.publish(),
        }
        Ok(())
    }

    fn look(&self, view: &View, keys: &[usize], found: &mut Vec<u64>, together: bool) {
        let rows = if together {
            let keys: Vec<&[u64]> = keys.iter().map(|key| self.1[*key].as_slice()).collect();
            view.rows_of(&keys)
        } else {
            keys.iter().map(|key| lookup_fast(view, &self.1[*key])).collect()
        };
        found.extend(rows.iter().map(|row| {
            let words = view.row(*row);
            match words[0] as u32 {
                Action::DEFAULT => answer_of(&view.row(view.default_row.load(Ordering::Acquire))),
                _ => answer_of(&words),
            }
        }));
    }
}

fn tried(entries: Entries) {
    let packed = entries.keys.iter().map(|key| entries.packed(key)).collect();
    all_see_one_state((entries, packed));
}

impl Default for Entries {
    fn default() -> Entries {
        Entries {
            specs: Vec::new(),
            size: 4096,
            row_per_entry: false,
            pool: Vec::new(),
            keys: Vec::new(),
            others: Vec::new(),
            ops: 20_000,
            default_every: 64,
        }
    }
}

fn exact(values: &[u64]) -> Vec<KeyMatch> {
    values.iter().map(|value| KeyMatch::Exact((*value).into())).collect()
}

/// Some keys with entries and some that never have one; other entries make the table grow.
fn exact_entries(widths: &[u32], others: u64) -> Entries {
    let key = |i: u64| -> Vec<u64> {
        widths.iter().map(|width| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width)).collect()
    };
    Entries {
        specs: widths.iter().map(|width| (*width, MatchKind::Exact)).collect(),
        pool: (1..8).map(|i| (exact(&key(i)), 0)).collect(),
        keys: (1..10).map(key).collect(),
        others: (100..100 + others).map(|i| exact(&key(i))).collect(),
        ..Entries::default()
    }
}

#[test]
fn keyless() {
    let keys = vec![vec![]];
    // All changes concern the default action.
    let entries = Entries { keys, ops: 2000, default_every: 1, ..Entries::default() };
    tried(entries);
}

#[test]
fn direct() {
    tried(exact_entries(&[12], 0));
    tried(Entries { row_per_entry: true, default_every: 4, ..exact_entries(&[12], 0) });
}

#[test]
fn quotient() {
    tried(exact_entries(&[48], 0));
    // All keys are in a few buckets, which overflow.
    let few = Entries { specs: vec![(17, MatchKind::Exact)], ..exact_entries(&[17], 60) };
    tried(few);
}

#[test]
fn growing_quotient() {
    tried(exact_entries(&[40], 3000));
}

#[test]
fn hash() {
    tried(exact_entries(&[64, 64], 0));
    tried(Entries { row_per_entry: true, ..exact_entries(&[64], 0) });
}

#[test]
fn growing_hash() {
    tried(exact_entries(&[64], 3000));
}

fn lpm(value: u64, width: u32, len: u32) -> KeyMatch {
    let value = if len == 0 { 0 } else { value >> (width - len) << (width - len) };
    KeyMatch::Lpm { value: value.into(), prefix_len: len }
}

/// Prefixes of some lengths of three values, two of which are close to each other.
fn prefixes(width: u32, lens: &[u32], before: &[(u32, u64)]) -> Entries {
    let ones = u64::MAX >> (64 - width);
    let values = [0x0a01_0203_0405_0607 >> (64 - width), (0x0a01_0203_0405_0607 >> (64 - width)) ^ 1, ones];
    let with = |field| {
        let mut key: Vec<KeyMatch> =
            before.iter().map(|(_, value)| KeyMatch::Exact((*value).into())).collect();
        key.push(field);
        key
    };
    let mut pool: Vec<(Vec<KeyMatch>, u32)> = Vec::new();
    for value in values {
        for len in lens {
            let key = with(lpm(value, width, *len));
            if !pool.iter().any(|(other, _)| *other == key) {
                pool.push((key, 0));
            }
        }
    }
    let mut specs: Vec<(u32, MatchKind)> =
        before.iter().map(|(width, _)| (*width, MatchKind::Exact)).collect();
    specs.push((width, MatchKind::Lpm));
    let key = |value: u64| before.iter().map(|(_, value)| *value).chain([value]).collect();
    Entries { specs, pool, keys: values.into_iter().map(key).collect(), ..Entries::default() }
}

#[test]
fn routes_of_32_bits() {
    tried(prefixes(32, &[0, 7, 8, 20, 24, 25, 31, 32], &[]));
    tried(Entries { default_every: 4, ..prefixes(32, &[0, 8, 24, 30], &[]) });
    tried(Entries { row_per_entry: true, ..prefixes(16, &[0, 3, 8, 12, 16], &[]) });
}

#[test]
fn routes_of_32_bits_move_to_large_pages() {
    let others = (0..1500).map(|i: u64| vec![lpm(0x5000_0000 + (i << 8), 32, 24)]).collect();
    tried(Entries { others, ops: 6000, ..prefixes(32, &[0, 8, 16, 24, 28, 32], &[]) });
}

#[test]
fn trie() {
    tried(prefixes(64, &[0, 8, 14, 16, 20, 24, 33, 40, 47, 63, 64], &[]));
    tried(prefixes(48, &[0, 16, 17, 18, 24, 30], &[]));
    let others = (100..2000u64).map(|i| vec![lpm(0x0a01_0203 << 32 | i << 20, 64, 44)]).collect();
    tried(Entries { others, ..prefixes(64, &[0, 15, 24, 32, 36, 44, 64], &[]) });
}

#[test]
fn routes_by_vrf() {
    tried(prefixes(32, &[0, 1, 8, 16, 24, 32], &[(16, 7)]));
    // With a wide root.
    tried(Entries { size: 1 << 16, ..prefixes(32, &[0, 1, 8, 16, 24, 32], &[(16, 7)]) });
}

fn ternary(value: u64, mask: u64) -> KeyMatch {
    KeyMatch::Ternary { value: (value & mask).into(), mask: mask.into() }
}

fn rules(count: u64) -> Entries {
    let value = 0xa5a5_a5a5u64;
    let rule = |i: u64| {
        let mask = (u64::from(u32::MAX) << (i % 33)) & u64::from(u32::MAX);
        let lo = 500 - i * 37 % 400;
        let range = KeyMatch::Range { lo: lo.into(), hi: (lo + 900).into() };
        (vec![ternary(value ^ u64::from(i % 5 == 4), mask), range], (i * 7919 % 13) as u32)
    };
    let keys = [[value, 500], [value ^ 1, 500], [value, 1200], [value ^ 0x10_0000, 510], [0, 0]];
    Entries {
        specs: vec![(32, MatchKind::Ternary), (16, MatchKind::Range)],
        pool: (0..count).map(rule).collect(),
        keys: keys.map(Vec::from).into(),
        ..Entries::default()
    }
}

#[test]
fn rules_with_priorities() {
    tried(rules(12));
    tried(rules(200));
}

#[test]
fn growing_rules() {
    let other =
        |i: u64| vec![ternary(i << 8, 0xffff_ff00), KeyMatch::Range { lo: 0u32.into(), hi: 9u32.into() }];
    tried(Entries { others: (1..2000).map(other).collect(), default_every: 1000, ..rules(60) });
}

#[test]
fn rules_of_many_dimensions() {
    // The key has more dimensions than are used for cuts, so whole keys are compared.
    let wide = |i: u64| {
        vec![
            ternary(0x1234 << 48, !0 << (i % 60)),
            KeyMatch::Optional(i.is_multiple_of(3).then(|| 9u32.into())),
        ]
    };
    tried(Entries {
        specs: vec![(64, MatchKind::Ternary), (40, MatchKind::Optional)],
        pool: (0..40).map(|i| (wide(i), (i * 31 % 7) as u32)).collect(),
        keys: vec![vec![0x1234 << 48, 9], vec![0x1234 << 48, 8], vec![0x1234 << 48 | 1 << 20, 9]],
        row_per_entry: true,
        ..Entries::default()
    });
}

#[test]
fn sums_of_prefixes() {
    let pool = [0u32, 8, 16]
        .iter()
        .flat_map(|a| [0u32, 4, 16].map(|b| (vec![lpm(0x1234, 16, *a), lpm(0x5678, 16, b)], 0)));
    tried(Entries {
        specs: vec![(16, MatchKind::Lpm), (16, MatchKind::Lpm)],
        pool: pool.collect(),
        keys: vec![vec![0x1234, 0x5678], vec![0x1234, 0x5679], vec![0x1235, 0x5678]],
        ..Entries::default()
    });
}

// An action profile.

/// Entries that name actions, members and groups. Members change, and are added to groups and removed from them.
struct Shared {
    selector: bool,
}

#[derive(Clone)]
enum Target {
    Direct(u64),
    Member(usize),
    Group(usize),
}

enum SharedOp {
    Point(usize, Target),
    Delete(usize),
    Default(Target),
    Change(usize, u64),
    Join(usize, usize),
    Leave(usize, usize),
}

struct SharedWriter {
    table: Table,
    profile: ActionProfile,
    handles: Vec<Option<EntryHandle>>,
}

const MEMBERS: usize = 5;
const GROUPS: usize = 2;
const TARGETED: usize = 3;
/// The selectors of the lookups; the last key has no entry.
const SELECTORS: [u64; 4] = [0, 3, 4, 1 << 33 | 5];

impl Target {
    fn action(&self) -> Action {
        match self {
            Target::Direct(version) => action(*version),
            Target::Member(member) => Action::member(*member as u32),
            Target::Group(group) => Action::group(*group as u32),
        }
    }
}

impl Subject for Shared {
    type Writer = SharedWriter;
    type Op = SharedOp;

    fn keys(&self) -> usize {
        (TARGETED + 1) * SELECTORS.len()
    }

    fn start(&self) -> (SharedWriter, ViewHandle) {
        let profile = ActionProfile::new(actions(), 0, self.selector);
        let keys = vec![KeySpec { width: 16, kind: MatchKind::Exact }];
        let default = Action { action: 0, data: vec![] };
        let spec = TableSpec {
            keys,
            actions: actions(),
            size: 64,
            row_per_entry: false,
            idle_timeout: false,
            default,
        };
        let table = Table::with_profile(spec, &profile);
        for member in 0..MEMBERS {
            profile.create_member(action(member as u64)).unwrap();
        }
        for group in 0..if self.selector { GROUPS } else { 0 } {
            profile.create_group().unwrap();
            // The group is never empty, because entries may name it at any time.
            profile.add_to_group(group as u32, group as u32).unwrap();
        }
        let views = table.view_handle();
        (SharedWriter { table, profile, handles: vec![None; TARGETED] }, views)
    }

    fn plan(&self, random: &mut Random) -> (Vec<SharedOp>, Vec<Timeline>) {
        let mut targets: Vec<Option<Target>> = vec![None; TARGETED];
        let mut default: Option<Target> = None;
        let mut members: Vec<u64> = (0..MEMBERS as u64).collect();
        let mut groups: Vec<Vec<usize>> = (0..GROUPS).map(|group| vec![group]).collect();
        let mut timelines = vec![Timeline::default(); self.keys()];
        let mut ops = Vec::new();
        loop {
            for (key, timeline) in timelines.iter_mut().enumerate() {
                let selector = SELECTORS[key % SELECTORS.len()] as usize;
                let target = targets.get(key / SELECTORS.len()).cloned().flatten().or(default.clone());
                let answer = match target {
                    None => NO_DATA,
                    Some(Target::Direct(version)) => version,
                    Some(Target::Member(member)) => members[member],
                    Some(Target::Group(group)) => members[groups[group][selector % groups[group].len()]],
                };
                timeline.note(ops.len(), answer);
            }
            if ops.len() == 1000 {
                return (ops, timelines);
            }
            let version = 100 + ops.len() as u64;
            let mut target = || match random.below(4) {
                0 => Target::Direct(version),
                1 | 2 if self.selector => Target::Group(random.below(GROUPS)),
                _ => Target::Member(random.below(MEMBERS)),
            };
            let target = target();
            let op = match random.below(16) {
                0 => {
                    default = Some(target.clone());
                    SharedOp::Default(target)
                }
                1..=3 => {
                    let entry = random.below(TARGETED);
                    targets[entry] = Some(target.clone());
                    SharedOp::Point(entry, target)
                }
                4 | 5 => {
                    let entry = random.below(TARGETED);
                    if targets[entry].take().is_none() {
                        continue;
                    }
                    SharedOp::Delete(entry)
                }
                6..=11 if self.selector => {
                    let group = random.below(GROUPS);
                    let member = random.below(MEMBERS);
                    match groups[group].binary_search(&member) {
                        Ok(at) if groups[group].len() > 1 => {
                            groups[group].remove(at);
                            SharedOp::Leave(member, group)
                        }
                        Ok(_) => continue,
                        Err(at) => {
                            groups[group].insert(at, member);
                            SharedOp::Join(member, group)
                        }
                    }
                }
                _ => {
                    let member = random.below(MEMBERS);
                    members[member] = version;
                    SharedOp::Change(member, version)
                }
            };
            ops.push(op);
        }
    }

    fn change(&self, writer: &mut SharedWriter, op: &SharedOp) -> Result<(), TableError> {
        let SharedWriter { table, profile, handles } = writer;
        match op {
            SharedOp::Point(entry, target) => match handles[*entry] {
                Some(handle) => table.modify(handle, target.action())?,
                None => {
                    let entry_of =
                        Entry { key: exact(&[*entry as u64]), priority: 0, action: target.action() };
                    handles[*entry] = Some(table.insert(entry_of)?);
                }
            },
            SharedOp::Delete(entry) => {
                table.delete(handles[*entry].expect("it is there"))?;
                handles[*entry] = None;
            }
            SharedOp::Default(target) => table.set_default(target.action())?,
            SharedOp::Change(member, version) => {
                profile.modify_member(*member as u32, action(*version))?;
            }
            SharedOp::Join(member, group) => profile.add_to_group(*member as u32, *group as u32)?,
            SharedOp::Leave(member, group) => profile.remove_from_group(*member as u32, *group as u32)?,
        }
        Ok(())
    }

    fn look(&self, view: &View, keys: &[usize], found: &mut Vec<u64>, _together: bool) {
        found.extend(keys.iter().map(|key| {
            let row = lookup_fast(view, &[(key / SELECTORS.len()) as u64]);
            answer_of(&view.selected(row, SELECTORS[key % SELECTORS.len()]))
        }));
    }
}

#[test]
fn members() {
    all_see_one_state(Shared { selector: false });
}

#[test]
fn groups() {
    all_see_one_state(Shared { selector: true });
}

// The checker itself.

#[test]
fn the_checker_finds_faults() {
    // Answers 10, 20 and 30, changed at times 10 to 11 and 20 to 21.
    let timelines = [Timeline(vec![(0, 10), (1, 20), (2, 30)])];
    let changes = [(10, 11), (20, 21)];
    let look = |begin, end, found| Look { key: 0, begin, end, found };
    let check_all = check;
    let check = |looks: &[Look]| check_all(&timelines, &changes, looks.to_vec());
    assert!(check(&[look(1, 2, 10), look(12, 13, 20), look(22, 23, 30)]).is_ok());
    // During a change both answers are right, and so is that of each state in between.
    assert!(check(&[look(9, 12, 10), look(9, 22, 20), look(10, 30, 30)]).is_ok());
    assert!(check(&[look(1, 2, 20)]).is_err(), "it is not there yet");
    assert!(check(&[look(12, 13, 10)]).is_err(), "it is not there any more");
    assert!(check(&[look(1, 30, 11)]).is_err(), "it was never there");
    // Of two consecutive lookups during a change, the later one must not see the older state.
    assert!(check(&[look(10, 12, 20), look(13, 14, 20)]).is_ok());
    let changes = [(10, 40), (50, 51)];
    let back = [look(12, 13, 20), look(14, 15, 10)];
    assert!(check_all(&timelines, &changes, back.to_vec()).is_err(), "back to the older one");
}
