//! Measures how fast tables fill, and how fast `lookup_fast` finds entries in them.
//!
//! `cargo run --release -p p4jet-tables --example rates [ENTRIES]`: prints one line per kind of table. Keys come in random
//! order; in the last kind, half of the lookups miss. It runs on one thread and measures CPU time; the digest is the sum of
//! all rows found.

use num_bigint::BigUint;
use p4jet_tables::*;

const LOOKUPS: usize = 4_000_000;

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
}

fn spec(keys: &[(u32, MatchKind)], size: u32) -> TableSpec {
    TableSpec {
        keys: keys.iter().map(|(width, kind)| KeySpec { width: *width, kind: *kind }).collect(),
        actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![48, 9] }],
        size,
        row_per_entry: false,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    }
}

fn action(rng: &mut Rng) -> Action {
    Action { action: 1, data: vec![rng.below(64).into(), rng.below(64).into()] }
}

fn exact(value: impl Into<BigUint>) -> KeyMatch {
    KeyMatch::Exact(value.into())
}

fn lpm(value: impl Into<BigUint>, prefix_len: u32) -> KeyMatch {
    KeyMatch::Lpm { value: value.into(), prefix_len }
}

/// Lengths as in an Internet table: mostly /24, then /16 to /23, few longer.
fn length(rng: &mut Rng) -> u32 {
    match rng.below(100) {
        0..60 => 24,
        60..95 => 16 + rng.below(8) as u32,
        95 => 8 + rng.below(8) as u32,
        _ => 25 + rng.below(8) as u32,
    }
}

/// CPU time of this thread, which other processes affect less than elapsed time.
#[allow(unsafe_code)]
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the one struct it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(name: &str, spec: TableSpec, entries: Vec<Entry>, keys: &[Vec<u64>]) {
    let count = entries.len();
    let mut table = Table::new(spec);
    let start = now();
    let mut duplicates = 0;
    for entry in entries {
        match table.insert(entry) {
            Ok(_) => {}
            Err(TableError::Duplicate { .. }) => duplicates += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let fill = now() - start;
    let views = table.view_handle();
    let guard = pin();
    let view = views.get(&guard);
    let (mut best, mut digest, mut hits) = (f64::INFINITY, 0u64, 0usize);
    for _ in 0..3 {
        (digest, hits) = (0, 0);
        let start = now();
        for key in keys.iter().cycle().take(LOOKUPS) {
            let row = lookup_fast(view, key);
            digest = digest.wrapping_add(row.into());
            hits += usize::from(row != 0);
        }
        best = best.min(now() - start);
    }
    println!(
        "{name:28} {count:8} entries ({duplicates} duplicates): {:7.3} s to fill, {:6.2} M inserts/s; {:6.1} M lookups/s, {:3.0} % hits, {:6.1} MB, digest {digest:x}",
        fill,
        count as f64 / fill / 1e6,
        LOOKUPS as f64 / best / 1e6,
        100.0 * hits as f64 / LOOKUPS as f64,
        table.memory_bytes() as f64 / 1e6,
    );
}

fn main() {
    let n: u32 = std::env::args().nth(1).map_or(100_000, |n| n.parse().expect("a number of entries"));
    let mut rng = Rng(1);
    let entry = |key: Vec<KeyMatch>, priority, rng: &mut Rng| Entry { key, priority, action: action(rng) };

    let macs: Vec<u64> = (0..n).map(|_| rng.next() >> 16).collect();
    let mut keys: Vec<Vec<u64>> = macs.iter().map(|mac| vec![*mac]).collect();
    keys.sort_by_key(|k| k[0].wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let entries = macs.iter().map(|mac| entry(vec![exact(*mac)], 0, &mut rng)).collect();
    measure("exact 48", spec(&[(48, MatchKind::Exact)], n), entries, &keys);

    let entries =
        macs.iter().map(|mac| entry(vec![exact(*mac), exact(mac >> 7), exact(5u32)], 0, &mut rng)).collect();
    let keys: Vec<Vec<u64>> = keys
        .iter()
        .map(|k| {
            let wide = u128::from(k[0]) | u128::from(k[0] >> 7) << 48 | 5 << 96;
            vec![wide as u64, (wide >> 64) as u64]
        })
        .collect();
    let kinds = [(48, MatchKind::Exact), (48, MatchKind::Exact), (8, MatchKind::Exact)];
    measure("exact 48+48+8", spec(&kinds, n), entries, &keys);

    let routes: Vec<(u32, u32)> = (0..n).map(|_| (rng.next() as u32, length(&mut rng))).collect();
    let entries = routes.iter().map(|(v, len)| entry(vec![lpm(*v, *len)], 0, &mut rng)).collect();
    let keys: Vec<Vec<u64>> = (0..n.max(1 << 16))
        .map(|_| {
            let (value, len) = routes[rng.below(n.into()) as usize];
            vec![u64::from(value ^ (rng.next() as u32).checked_shr(len).unwrap_or(0))]
        })
        .collect();
    measure("lpm 32", spec(&[(32, MatchKind::Lpm)], n), entries, &keys);

    let mut entries: Vec<Entry> = vec![entry(vec![lpm(0u32, 0)], 0, &mut rng)];
    entries.extend(routes.iter().take(63).map(|(v, len)| entry(vec![lpm(*v, *len)], 0, &mut rng)));
    measure("lpm 32, with default route", spec(&[(32, MatchKind::Lpm)], 1024), entries, &keys);

    let v6: Vec<(u128, u32)> = (0..n)
        .map(|_| {
            let value = u128::from(rng.next()) << 64 | u128::from(rng.next());
            (value, [32, 36, 40, 44, 48, 48, 48, 56, 64, 128][rng.below(10) as usize])
        })
        .collect();
    let entries = v6.iter().map(|(v, len)| entry(vec![lpm(*v, *len)], 0, &mut rng)).collect();
    let keys: Vec<Vec<u64>> = v6
        .iter()
        .map(|(v, len)| {
            let key = v ^ (u128::from(rng.next()) | 1).checked_shr(*len).unwrap_or(0);
            vec![key as u64, (key >> 64) as u64]
        })
        .collect();
    measure("lpm 128", spec(&[(128, MatchKind::Lpm)], n), entries, &keys);

    for rules in [100, 1000, 10_000] {
        let kinds = [
            (32, MatchKind::Lpm),
            (32, MatchKind::Ternary),
            (8, MatchKind::Ternary),
            (16, MatchKind::Range),
            (16, MatchKind::Range),
        ];
        let prefixes = [0, 8, 16, 24, 24, 32, 28, 32];
        let range = |rng: &mut Rng| match rng.below(4) {
            0 => (0, 0xffff),
            1 => (1024, 0xffff),
            2 => {
                let port = rng.below(1024);
                (port, port)
            }
            _ => {
                let lo = rng.below(60_000);
                (lo, lo + rng.below(5000))
            }
        };
        let mut samples = Vec::new();
        let entries = (0..rules)
            .map(|priority| {
                let (src, dst) = (rng.next() as u32, rng.next() as u32);
                let (src_len, dst_len) = (prefixes[rng.below(8) as usize], prefixes[rng.below(8) as usize]);
                let (sport, dport) = (range(&mut rng), range(&mut rng));
                let proto = [6u32, 17][rng.below(2) as usize];
                let key = u128::from(src)
                    | u128::from(dst) << 32
                    | u128::from(proto) << 64
                    | u128::from(sport.0) << 72
                    | u128::from(dport.1) << 88;
                samples.push(vec![key as u64, (key >> 64) as u64]);
                samples.push(vec![rng.next(), u64::from(proto) | rng.below(1 << 32) << 8]);
                let mask = u32::MAX.checked_shl(32 - dst_len).unwrap_or(0);
                let key = vec![
                    lpm(src, src_len),
                    KeyMatch::Ternary { value: (dst & mask).into(), mask: mask.into() },
                    KeyMatch::Ternary { value: proto.into(), mask: 0xffu32.into() },
                    KeyMatch::Range { lo: sport.0.into(), hi: sport.1.into() },
                    KeyMatch::Range { lo: dport.0.into(), hi: dport.1.into() },
                ];
                entry(key, priority, &mut rng)
            })
            .collect();
        measure("5-tuple ACL with ranges", spec(&kinds, rules), entries, &samples);
    }
}
