//! Durations of single changes while tables grow to the sizes they are designed for. Measures processor time of the
//! thread, and for each change the shorter of two runs, to exclude other activity of the machine but include page faults.
#![allow(unsafe_code)]

use p4jet_tables::*;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Processor time of this thread.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// No change may take longer. The aim is 1 ms; the rest is for slow machines.
const LIMIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 3 });
/// Runs one test at a time, because the threads of a process take turns in mapping memory.
static ONE: Mutex<()> = Mutex::new(());

/// The times of changes, in order.
type Times = Vec<Duration>;

fn time<T>(times: &mut Times, change: impl FnOnce() -> Result<T, TableError>) -> T {
    let start = now();
    let done = change().expect("the table accepts the change");
    times.push(now() - start);
    done
}

fn check(name: &str, one: &Times, other: &Times) {
    let mut times: Times = one.iter().zip(other).map(|(a, b)| *a.min(b)).collect();
    let total: Duration = times.iter().sum();
    let each = total / times.len() as u32;
    let longest = (0..times.len()).max_by_key(|i| times[*i]).unwrap_or(0);
    println!(
        "{name}: {} changes, each {each:?}, longest {:?} (number {longest})",
        times.len(),
        times[longest]
    );
    times.sort_unstable();
    println!("  the longest: {:?}", &times[times.len().saturating_sub(8)..]);
    assert!(times[times.len() - 1] < LIMIT, "{name}: {:?}", times[times.len() - 1]);
}

/// Maps numbers to distinct numbers that look random.
fn mixed(i: u64) -> u64 {
    let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

/// Adds `count` entries, removes every second one and adds it again. `rows` is the number of different actions.
fn grow(name: &str, keys: &[(u32, MatchKind)], count: u64, rows: u64, key: impl Fn(u64) -> Vec<KeyMatch>) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = |i: u64| Entry {
        key: key(i),
        priority: mixed(i) as u32 >> 8,
        action: Action { action: 0, data: vec![(1 + i % rows).into()] },
    };
    let run = || {
        let mut table = Table::new(TableSpec {
            keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
            actions: vec![ActionSpec { param_widths: vec![32] }],
            size: count as u32,
            row_per_entry: false,
            idle_timeout: false,
            default: Action { action: 0, data: vec![0u32.into()] },
        });
        let (mut growing, mut there) = (Times::new(), Times::new());
        let mut handles = Vec::new();
        for i in 0..count {
            let entry = entry(i);
            handles.push(time(&mut growing, || table.insert(entry)));
        }
        for (i, handle) in handles.iter_mut().enumerate().step_by(2) {
            let entry = entry(i as u64);
            time(&mut there, || table.delete(*handle));
            *handle = time(&mut there, || table.insert(entry));
        }
        (growing, there)
    };
    let ((growing, there), (growing_too, there_too)) = (run(), run());
    check(&format!("{name}, growing"), &growing, &growing_too);
    check(&format!("{name}, all there"), &there, &there_too);
}

/// The sizes that tables are designed for, or small ones without optimisation.
fn size(of_release: u64) -> u64 {
    if cfg!(debug_assertions) { of_release / 100 } else { of_release }
}

fn exact(width: u32) -> impl Fn(u64) -> Vec<KeyMatch> {
    move |i| {
        let value = u128::from(mixed(i)) << 64 | u128::from(mixed(i + 1));
        vec![KeyMatch::Exact((value >> (128 - width)).into())]
    }
}

fn lpm(width: u32, lens: &'static [u32]) -> impl Fn(u64) -> Vec<KeyMatch> {
    move |i| {
        let prefix_len = lens[i as usize % lens.len()];
        let value = u128::from(mixed(i)) << 64 | u128::from(mixed(i + 1));
        let value = if width == 128 { value >> 3 | 1 << 125 } else { value };
        vec![KeyMatch::Lpm {
            value: (value >> (128 - prefix_len) << (width - prefix_len)).into(),
            prefix_len,
        }]
    }
}

#[test]
fn exact_of_48_bits() {
    grow("exact 48", &[(48, MatchKind::Exact)], size(400_000), 4, exact(48));
}

#[test]
fn exact_of_48_bits_each_with_its_action() {
    grow("exact 48, actions", &[(48, MatchKind::Exact)], size(400_000), u64::MAX - 1, exact(48));
}

#[test]
fn exact_of_128_bits() {
    grow("exact 128", &[(128, MatchKind::Exact)], size(400_000), 4, exact(128));
}

/// Any two of these keys may be equal.
fn lpm_32(i: u64) -> Vec<KeyMatch> {
    let value = (i as u32).wrapping_mul(0x9e37_79b1) >> 8 << 8;
    let prefix_len = if i.is_multiple_of(16) { 32 } else { 24 };
    let value = if prefix_len == 32 { value | 77 } else { value };
    vec![KeyMatch::Lpm { value: value.into(), prefix_len }]
}

#[test]
fn lpm_of_32_bits() {
    grow("lpm 32", &[(32, MatchKind::Lpm)], size(400_000), 64, lpm_32);
}

#[test]
fn lpm_of_128_bits() {
    grow("lpm 128", &[(128, MatchKind::Lpm)], size(100_000), 64, lpm(128, &[48, 48, 48, 44, 40, 36, 56, 64]));
}

/// Routes in numbered routing tables: a few large ones and many small ones.
fn of_tables(route: impl Fn(u64) -> Vec<KeyMatch>) -> impl Fn(u64) -> Vec<KeyMatch> {
    move |i| {
        let table = mixed(i) >> 48 >> (mixed(i) % 17);
        let mut key = route(i);
        key.insert(0, KeyMatch::Exact(table.into()));
        key
    }
}

#[test]
fn lpm_of_tables() {
    let keys = |bits| [(16, MatchKind::Exact), (bits, MatchKind::Lpm)];
    grow("16 and lpm 32", &keys(32), size(200_000), 64, of_tables(lpm_32));
    let v6 = of_tables(lpm(128, &[48, 48, 48, 44, 40, 36, 56, 64]));
    grow("16 and lpm 128", &keys(128), size(100_000), 64, v6);
}

/// Nested prefixes of addresses, ports, priorities.
fn acl(i: u64) -> Vec<KeyMatch> {
    let (a, b, c) = (mixed(i), mixed(i + (1 << 40)), mixed(i + (2 << 40)));
    let prefix = |value: u64, len: u64| {
        let mask = !0u32 << (32 - len.clamp(1, 32));
        let (value, mask) = if len == 0 { (0, 0) } else { (value as u32 & mask, mask) };
        KeyMatch::Ternary { value: value.into(), mask: mask.into() }
    };
    let exact = |value: u64, width: u32, any: bool| {
        let mask = if any { 0 } else { (1u64 << width) - 1 };
        KeyMatch::Ternary { value: (value & mask).into(), mask: mask.into() }
    };
    let port = |value: u64, kind: u64| {
        let (lo, hi) = match kind % 8 {
            0..=3 => (0, 65535),
            4..=6 => (value & 1023, value & 1023),
            _ => (value & 0x7fff, (value & 0x7fff) + (value >> 20 & 0x7fff)),
        };
        KeyMatch::Range { lo: lo.into(), hi: hi.into() }
    };
    let len = |kind: u64| [32, 32, 24, 24, 16, 28, 20, 0][kind as usize % 8];
    vec![
        prefix(a >> 32, len(a)),
        prefix(b >> 32, len(b)),
        exact(c & 1, 8, c % 8 == 7),
        port(0, 0),
        port(c >> 8, c >> 3),
    ]
}

const ACL: [(u32, MatchKind); 5] = [
    (32, MatchKind::Ternary),
    (32, MatchKind::Ternary),
    (8, MatchKind::Ternary),
    (16, MatchKind::Range),
    (16, MatchKind::Range),
];

#[test]
fn five_tuples() {
    grow("acl", &ACL, size(10_000), 2, acl);
}
