//! Access lists of realistic shape for programs/acl_router, with packets that follow them, like bench/acl.py: the shares of
//! prefix lengths, ports and protocols resemble those of ClassBench's seeds (Taylor and Turner, 2005).

use super::Workload;
use super::frames::{Ipv4, SHORT, TCP, TYPE_IPV4, UDP, dotted, ethernet, join, mac, mask, padded, word};
use super::shipped::PORTS;
use crate::random::Random;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

const ICMP: u8 = 1;
const GRE: u8 = 47;
const ESP: u8 = 50;
const ANY_PORT: (u16, u16) = (0, 65535);

const SERVICES: [u16; 16] = [80, 443, 53, 25, 22, 21, 110, 143, 123, 161, 389, 445, 1433, 3306, 3389, 8080];

#[derive(Clone, Copy)]
enum Ports {
    Any,
    High,
    Low,
    Exact,
    Range,
}

/// A kind of list: values with their weights, and the number of different prefixes for 100 rules.
pub(super) struct Kind {
    seed: u64,
    lengths: [&'static [(u32, usize)]; 2],
    distinct_percent: [usize; 2],
    ports: [&'static [(Ports, usize)]; 2],
    protocols: &'static [(u8, usize)],
}

/// Access control lists: long, nested prefixes, exact destination ports.
pub(super) const ACL: Kind = Kind {
    seed: 1,
    lengths: [
        &[
            (0, 8),
            (8, 1),
            (16, 6),
            (20, 4),
            (22, 6),
            (23, 4),
            (24, 20),
            (26, 8),
            (27, 10),
            (28, 10),
            (30, 8),
            (32, 35),
        ],
        &[(0, 3), (16, 5), (20, 4), (22, 6), (24, 22), (26, 7), (27, 8), (28, 8), (29, 7), (30, 6), (32, 45)],
    ],
    distinct_percent: [35, 25],
    ports: [
        &[(Ports::Any, 96), (Ports::High, 2), (Ports::Exact, 2)],
        &[(Ports::Any, 22), (Ports::High, 5), (Ports::Low, 2), (Ports::Exact, 58), (Ports::Range, 13)],
    ],
    protocols: &[(TCP, 70), (UDP, 18), (ICMP, 5), (0, 5), (GRE, 1), (ESP, 1)],
};

/// Firewalls: many wildcards, port ranges on both sides.
pub(super) const FW: Kind = Kind {
    seed: 2,
    lengths: [
        &[(0, 38), (8, 3), (16, 7), (20, 3), (24, 14), (28, 5), (30, 2), (32, 38)],
        &[(0, 28), (8, 2), (16, 8), (20, 3), (24, 17), (28, 6), (30, 2), (32, 45)],
    ],
    distinct_percent: [30, 30],
    ports: [
        &[(Ports::Any, 58), (Ports::High, 20), (Ports::Low, 2), (Ports::Exact, 14), (Ports::Range, 6)],
        &[(Ports::Any, 24), (Ports::High, 14), (Ports::Low, 4), (Ports::Exact, 42), (Ports::Range, 16)],
    ],
    protocols: &[(TCP, 58), (UDP, 24), (ICMP, 8), (0, 8), (GRE, 2)],
};

/// IP chains: between them.
pub(super) const IPC: Kind = Kind {
    seed: 3,
    lengths: [
        &[(0, 14), (8, 3), (12, 2), (16, 8), (20, 4), (22, 4), (24, 18), (27, 5), (28, 6), (30, 4), (32, 44)],
        &[(0, 12), (8, 2), (14, 2), (16, 9), (20, 4), (23, 4), (24, 20), (27, 5), (28, 5), (30, 4), (32, 46)],
    ],
    distinct_percent: [30, 30],
    ports: [
        &[(Ports::Any, 68), (Ports::High, 11), (Ports::Low, 2), (Ports::Exact, 14), (Ports::Range, 5)],
        &[(Ports::Any, 38), (Ports::High, 10), (Ports::Low, 3), (Ports::Exact, 38), (Ports::Range, 11)],
    ],
    protocols: &[(TCP, 50), (UDP, 28), (ICMP, 8), (0, 11), (GRE, 1), (ESP, 2)],
};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rule {
    source: (u32, u32),
    destination: (u32, u32),
    /// 0 is any.
    protocol: u8,
    source_ports: (u16, u16),
    destination_ports: (u16, u16),
}

/// Matches every packet.
const EVERYTHING: Rule = Rule {
    source: (0, 0),
    destination: (0, 0),
    protocol: 0,
    source_ports: ANY_PORT,
    destination_ports: ANY_PORT,
};

/// Different prefixes of a tree, by length. Most grow from a shorter one, so large branches grow faster.
fn prefixes(random: &mut Random, lengths: &[(u32, usize)], distinct: usize) -> BTreeMap<u32, Vec<u32>> {
    const ROOTS: usize = 12;
    let mut tree: Vec<(u32, u32)> = (0..ROOTS).map(|_| ((random.range(1, 222) as u32) << 24, 8)).collect();
    let mut by_length = BTreeMap::from([(0, vec![0])]);
    let mut seen = HashSet::from([(0, 0)]);
    for _ in 0..distinct {
        let length = random.weighted(lengths);
        let (value, base) =
            (0..8).map(|_| *random.pick(&tree)).find(|(_, base)| *base <= length).unwrap_or((0, 0));
        let value = value | word(random) & !mask(base) & mask(length);
        if length > 0 && seen.insert((value, length)) {
            by_length.entry(length).or_default().push(value);
            tree.push((value, length));
        }
    }
    by_length
}

fn ports(random: &mut Random, kind: Ports) -> (u16, u16) {
    match kind {
        Ports::Any => ANY_PORT,
        Ports::High => (1024, 65535),
        Ports::Low => (1, 1023),
        Ports::Exact => {
            let one =
                if random.percent(80) { *random.pick(&SERVICES) } else { random.range(1, 65535) as u16 };
            (one, one)
        }
        Ports::Range => {
            let low = random.pick(&[1u16, 20, 137, 1024, 2000, 5000, 6000, 6881, 8000, 30000])
                + random.below(100) as u16;
            let more = *random.pick(&[1u16, 2, 3, 7, 10, 31, 100, 500, 1000, 9999, 30000]);
            (low, low.saturating_add(more))
        }
    }
}

/// The rules, more specific ones mostly first.
fn rules(random: &mut Random, kind: &Kind, count: usize) -> Vec<Rule> {
    let pools = [0, 1]
        .map(|side| prefixes(random, kind.lengths[side], count * kind.distinct_percent[side] / 100 + 20));
    let address = |random: &mut Random, side: usize| {
        let length = random.weighted(kind.lengths[side]);
        let nearest = pools[side].iter().min_by_key(|(known, _)| known.abs_diff(length));
        let (length, values) = nearest.expect("the empty prefix is there");
        // Some networks have many rules.
        let at = random.below(values.len()).min(random.below(values.len()));
        (values[at], *length)
    };
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    while found.len() < count {
        let protocol = random.weighted(kind.protocols);
        let mut rule = Rule { protocol, ..EVERYTHING };
        if protocol == TCP || protocol == UDP {
            let kinds = [0, 1].map(|side| random.weighted(kind.ports[side]));
            [rule.source_ports, rule.destination_ports] = kinds.map(|kind| ports(random, kind));
        }
        (rule.source, rule.destination) = (address(random, 0), address(random, 1));
        let all = rule.source.1 + rule.destination.1 == 0 && rule.destination_ports == ANY_PORT;
        // It would hide the others.
        if all && rule.source_ports == ANY_PORT || !seen.insert(rule) {
            continue;
        }
        let width = |(low, high): (u16, u16)| (u32::from(high) - u32::from(low) + 1).ilog2();
        let open = 64 - rule.source.1 - rule.destination.1
            + if protocol == 0 { 8 } else { 0 }
            + width(rule.source_ports)
            + width(rule.destination_ports);
        // About normally distributed, with a standard deviation of 4.
        let noise: usize = (0..12).map(|_| random.below(1000)).sum();
        found.push((open as usize * 250 + noise, rule));
    }
    found.sort_by_key(|(open, _)| *open);
    found.into_iter().map(|(_, rule)| rule).collect()
}

fn frame(random: &mut Random, rule: &Rule) -> Vec<u8> {
    let mut within = |(value, length): (u32, u32)| value | word(random) & !mask(length);
    let (source, destination) = (within(rule.source), within(rule.destination));
    let protocol = if rule.protocol == 0 { *random.pick(&[TCP, TCP, UDP]) } else { rule.protocol };
    let mut port = |(low, high): (u16, u16)| (random.range(low.into(), high.into()) as u16).to_be_bytes();
    let mut payload = vec![0; SHORT - 34];
    payload[..2].copy_from_slice(&port(rule.source_ports));
    payload[2..4].copy_from_slice(&port(rule.destination_ports));
    let packet = Ipv4::new(source, destination, protocol).with(&payload);
    padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT)
}

/// A list of `count` rules of which 70 % permit, and a route for every destination; nine packets of ten match a rule.
pub(super) fn workload(kind: &Kind, count: usize, packets: usize) -> Workload {
    let mut random = Random::new(0x6163_6c00_0000 + kind.seed * 1_000_000 + count as u64);
    let rules = rules(&mut random, kind, count);
    let mut commands = String::new();
    for (priority, rule) in (1..).zip(&rules) {
        let action = if random.percent(70) { "permit" } else { "deny" };
        let ternary = |(value, length): (u32, u32)| format!("{}&&&{:#x}", dotted(value), mask(length));
        let range = |(low, high): (u16, u16)| format!("{low}->{high}");
        let _ = writeln!(
            commands,
            "table_add acl_v4 {action} {} {} {}&&&{:#x} {} {} => {priority}",
            ternary(rule.source),
            ternary(rule.destination),
            rule.protocol,
            if rule.protocol == 0 { 0 } else { 0xff },
            range(rule.source_ports),
            range(rule.destination_ports)
        );
    }
    // Every destination has a route, selected by its first six bits.
    for i in 0..64u32 {
        let (prefix, dmac, port) = (dotted(i << 26), mac(0x100 + u64::from(i)), i as usize % PORTS);
        let _ = writeln!(commands, "table_add ipv4_lpm set_next_hop {prefix}/6 => {i}");
        let _ = writeln!(commands, "table_add next_hops send_to {i} => {dmac:#014x} {port}");
    }
    for port in 0..PORTS {
        let _ = writeln!(
            commands,
            "table_add send_frame rewrite_mac {port} => {:#014x}",
            mac(0x900 + port as u64)
        );
    }
    let frames = (0..packets).map(|_| match random.percent(10) {
        true => frame(&mut random, &EVERYTHING),
        false => {
            let rule = *random.pick(&rules);
            frame(&mut random, &rule)
        }
    });
    let frames = frames.collect();
    Workload { commands, frames }
}
