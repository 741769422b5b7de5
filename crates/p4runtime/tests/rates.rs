//! The rate at which batches of updates are decoded and carried out, on one core:
//! `cargo test --release -p p4jet-p4runtime --test all rates:: -- --ignored --nocapture`.

use crate::common::*;
use p4jet_p4info::proto::v1::{Atomicity, EntityKind, TableEntry, UpdateType, WriteRequest};
use prost::Message;

/// CPU time of this thread in seconds: other processes may use the machine, too.
fn cpu_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Updates of a batch.
const BATCH: usize = 1000;

/// Writes entries in batches, from encoded requests on. Returns entries per second.
fn rate(f: &Fixture, what: &str, kind: UpdateType, entries: &[TableEntry], least: f64) {
    let batches: Vec<bytes::Bytes> = entries
        .chunks(BATCH)
        .map(|entries| {
            let updates = entries.iter().map(|e| update(kind, EntityKind::TableEntry(e.clone())));
            WriteRequest { updates: updates.collect(), ..WriteRequest::default() }.encode_to_vec().into()
        })
        .collect();
    let began = cpu_s();
    for batch in batches {
        let request = WriteRequest::decode(batch).unwrap();
        let written = f.write(request.updates, Atomicity::ContinueOnError);
        assert_eq!(written.errors, None);
    }
    let rate = entries.len() as f64 / (cpu_s() - began);
    println!("{what}: {:.0} entries/s in batches of {BATCH}, expected {least:.0}", rate);
}

/// Numbers in no particular order.
fn mixed(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
#[ignore = "measures"]
fn rates() {
    let f = Fixture::new();
    let exact_ones: Vec<_> = (0..60_000).map(|n| f.l2(mixed(n) >> 16, n & 0xff)).collect();
    rate(&f, "exact, inserted", UpdateType::Insert, &exact_ones, 400_000.0);
    rate(&f, "exact, modified", UpdateType::Modify, &exact_ones, 400_000.0);
    rate(&f, "exact, deleted", UpdateType::Delete, &exact_ones, 400_000.0);
    let routes: Vec<_> = (0..200_000u64)
        .map(|n| {
            let prefix = (mixed(n) >> 40) << 8;
            f.entry("lpm_only", vec![lpm(1, prefix & 0xffff_ff00, 24)], f.act("forward", &[n & 0xff]))
        })
        .collect();
    let mut seen = std::collections::HashSet::new();
    let routes: Vec<_> = routes.into_iter().filter(|r| seen.insert(format!("{:?}", r.r#match))).collect();
    rate(&f, "routes, inserted", UpdateType::Insert, &routes, 350_000.0);
    rate(&f, "routes, deleted", UpdateType::Delete, &routes, 350_000.0);
    let rules: Vec<_> = (0..10_000u64)
        .map(|n| {
            let matches = vec![ternary(1, mixed(n) >> 40 << 8, 0xffff_ff00), optional(2, 6), exact(5, 1)];
            TableEntry { priority: 10 + n as i32, ..f.entry("acl", matches, f.act("forward", &[n & 0xff])) }
        })
        .collect();
    rate(&f, "ternary, inserted", UpdateType::Insert, &rules, 200_000.0);
    rate(&f, "ternary, deleted", UpdateType::Delete, &rules, 200_000.0);
    let began = cpu_s();
    let single: Vec<_> = (0..20_000).map(|n| f.l2(n, 1)).collect();
    for entry in &single {
        assert_eq!(f.insert(entry.clone()), OK);
    }
    println!("exact, one by one: {:.0}/s", single.len() as f64 / (cpu_s() - began));
    let began = cpu_s();
    let read = f.all("l2").len();
    println!("read: {:.0} entries/s", read as f64 / (cpu_s() - began));
}
