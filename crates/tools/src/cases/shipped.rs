//! The shipped programs, except for those of the catalogue and the gateway.

use super::draw::{Draw, Skew};
use super::frames::{
    Ipv4, LONG, SHORT, TCP, TYPE_IPV4, TYPE_IPV6, UDP, any_mac, dotted, ethernet, half, ipv6, join, mac,
    mask, padded, tcp, udp, udp_frame, word,
};
use super::{Set, Workload, acl, count};
use crate::random::Random;
use std::fmt::Write as _;
use std::net::Ipv6Addr;

const BASIC_L2: &str = include_str!("../../../../programs/basic_l2/basic_l2.p4");
const L2_LEARNING: &str = include_str!("../../../../programs/l2_learning/l2_learning.p4");
const MAC_MIRROR: &str = include_str!("../../../../programs/mac_mirror/mac_mirror.p4");
const MAC_MIRROR_PRINTED: &str =
    include_str!("../../../../programs/mac_mirror_printed/mac_mirror_printed.p4");
const MAC_MIRROR_PSA: &str = include_str!("../../../../programs/mac_mirror_psa/mac_mirror_psa.p4");
const SIMPLE_ROUTER: &str = include_str!("../../../../programs/simple_router/simple_router.p4");
const ACL_ROUTER: &str = include_str!("../../../../programs/acl_router/acl_router.p4");

/// Ports of stations and next hops.
pub(super) const PORTS: usize = 4;
/// Next hops of routes.
pub(super) const NEXT_HOPS: usize = 64;

pub(super) fn add(set: &mut Set) {
    for (name, stations, misses, skew, bytes) in [
        ("l2 64", 64, 0, Skew::Even, SHORT),
        ("l2 1024, 1500 bytes, Zipf", 1024, 0, Skew::Zipf, LONG),
        ("l2 16384, half unknown", 16384, 50, Skew::Even, SHORT),
        ("l2 100000, Zipf", 100_000, 0, Skew::Zipf, SHORT),
        ("l2 1000000", 1_000_000, 0, Skew::Even, SHORT),
    ] {
        set.add(name, "basic_l2.p4", BASIC_L2, move || l2_mix(stations, count(bytes), misses, skew, bytes));
    }
    for (name, routes, wrong, skew, bytes) in [
        ("l3 64, 1500 bytes", 64, 0, Skew::Even, LONG),
        ("l3 10000, a third dropped", 10_000, 33, Skew::Even, SHORT),
        ("l3 100000, Zipf", 100_000, 0, Skew::Zipf, SHORT),
        ("l3 1000000", 1_000_000, 0, Skew::Even, SHORT),
    ] {
        set.add(name, "simple_router.p4", SIMPLE_ROUTER, move || {
            l3_mix(routes, count(bytes), wrong, skew, bytes)
        });
    }
    set.add("l2 learning 10000, floods", "l2_learning.p4", L2_LEARNING, l2_learning);
    set.add("mac mirror 512", "mac_mirror.p4", MAC_MIRROR, || mirror(512, Skew::Even));
    set.add("mac mirror PSA 1024, Zipf", "mac_mirror_psa.p4", MAC_MIRROR_PSA, || mirror(1024, Skew::Zipf));
    set.add("mac mirror printed 64", "mac_mirror_printed.p4", MAC_MIRROR_PRINTED, || mirror(64, Skew::Even));
    for (name, kind, rules) in
        [("acl 1000", &acl::ACL, 1000), ("fw 10000", &acl::FW, 10_000), ("ipc 200", &acl::IPC, 200)]
    {
        set.add(name, "acl_router.p4", ACL_ROUTER, move || acl::workload(kind, rules, count(SHORT)));
    }
    set.add("dual stack router, options and fragments", "acl_router.p4", ACL_ROUTER, dual_stack);
}

/// `stations` known stations behind 4 ports, for basic_l2, and packets to them.
pub fn l2(stations: usize, packets: usize) -> Workload {
    l2_mix(stations, packets, 0, Skew::Even, SHORT)
}

fn l2_mix(stations: usize, packets: usize, unknown_percent: usize, skew: Skew, bytes: usize) -> Workload {
    let mut random = Random::new(0x6c32_0000 + stations as u64);
    let known = random.distinct(stations, 30);
    let mut commands = String::new();
    for (i, station) in known.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(commands, "table_add forward set_dest {:#014x} => {}", mac(*station), i % PORTS);
    }
    let draw = Draw::new(skew, stations, &mut random);
    let frame = |_| {
        // Known stations have 30 bits.
        let to = match random.percent(unknown_percent) {
            true => mac(1 << 30 | random.next() >> 34),
            false => mac(known[draw.next(&mut random)]),
        };
        let (from, source, destination) = (any_mac(&mut random), word(&mut random), word(&mut random));
        udp_frame(to, from, source, destination, half(&mut random), bytes)
    };
    Workload { commands, frames: (0..packets).map(frame).collect() }
}

/// `n` routes (mostly /24) to 64 next hops behind 4 ports, for simple_router, and packets to them.
pub fn l3(n: usize, packets: usize) -> Workload {
    l3_mix(n, packets, 0, Skew::Even, SHORT)
}

/// Some prefixes of IPv4 in order, with a next hop each: most of them /24, as on the Internet.
pub(super) fn routes(n: usize, random: &mut Random) -> Vec<(u32, u32, usize)> {
    let lengths: [u32; 10] = [24, 24, 24, 24, 24, 24, 22, 23, 16, 32];
    let mut routes = Vec::with_capacity(n);
    while routes.len() < n {
        for _ in routes.len()..n {
            let length = *random.pick(&lengths);
            let address = (1 << 24) + word(random) % (222 << 24);
            routes.push((address & mask(length), length, random.below(NEXT_HOPS)));
        }
        routes.sort_unstable();
        routes.dedup_by_key(|(prefix, length, _)| (*prefix, *length));
    }
    routes
}

/// An address that has this prefix.
pub(super) fn within(prefix: u32, length: u32, random: &mut Random) -> u32 {
    prefix | word(random) & !mask(length)
}

/// Of the wrong packets, some have TTL 1, some a wrong checksum, and some are not IPv4.
fn l3_mix(n: usize, packets: usize, wrong_percent: usize, skew: Skew, bytes: usize) -> Workload {
    let mut random = Random::new(0x6c33_0000 + n as u64);
    let routes = routes(n, &mut random);
    let hop_address = |hop: usize| dotted(0x0a00_0001 + hop as u32);
    let mut commands = String::new();
    for (prefix, length, hop) in &routes {
        let (prefix, address) = (dotted(*prefix), hop_address(*hop));
        let _ =
            writeln!(commands, "table_add ipv4_lpm set_nhop {prefix}/{length} => {address} {}", hop % PORTS);
    }
    for hop in 0..NEXT_HOPS {
        let _ = writeln!(
            commands,
            "table_add forward set_dmac {} => {:#014x}",
            hop_address(hop),
            mac(0x100 + hop as u64)
        );
    }
    for port in 0..PORTS {
        let _ = writeln!(
            commands,
            "table_add send_frame rewrite_mac {port} => {:#014x}",
            mac(0x900 + port as u64)
        );
    }
    let draw = Draw::new(skew, n, &mut random);
    let frame = |_| {
        let (prefix, length, _) = routes[draw.next(&mut random)];
        let destination = within(prefix, length, &mut random);
        let mut header = Ipv4::new(word(&mut random), destination, UDP);
        let segment = udp(half(&mut random), 53, &vec![0; bytes - 42]);
        let wrong = random.percent(wrong_percent).then(|| random.below(3));
        if wrong == Some(0) {
            header.ttl = 1;
        }
        let mut frame = join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &header.with(&segment)]);
        match wrong {
            Some(1) => frame[24] ^= 1,
            Some(2) => frame[12..14].copy_from_slice(&[8, 6]),
            _ => (),
        }
        frame
    };
    Workload { commands, frames: (0..packets).map(frame).collect() }
}

/// Of 16 packets, one is flooded to three ports and one comes from an unknown station.
fn l2_learning() -> Workload {
    const STATIONS: usize = 10_000;
    let mut random = Random::new(0x6c32_6c00);
    let stations = random.distinct(STATIONS, 30);
    let mut commands = "mc_mgrp_create 1\nmc_node_create 0 0 1 2 3\nmc_node_associate 1 0\n".to_string();
    for (i, station) in stations.iter().enumerate() {
        let (station, port) = (mac(*station), i % PORTS);
        let _ = writeln!(commands, "table_add smac NoAction {station:#014x} {port} =>");
        let _ = writeln!(commands, "table_add dmac forward {station:#014x} => {port}");
    }
    let frame = |_| {
        // Stations at port 0 send, to those at other ports.
        let from = 4 * random.below(STATIONS / PORTS);
        let to = 4 * random.below(STATIONS / PORTS) + random.range(1, 3);
        let (mut to, mut from) = (mac(stations[to]), mac(stations[from]));
        match random.below(16) {
            0 => to = 0xffff_ffff_ffff,
            1 => from = mac(1 << 30 | random.next() >> 34),
            _ => (),
        }
        udp_frame(to, from, word(&mut random), word(&mut random), half(&mut random), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// `n` mirrored addresses; one packet of ten is for another one.
fn mirror(n: usize, skew: Skew) -> Workload {
    let mut random = Random::new(0x6d6d_0000 + n as u64);
    let addresses = random.distinct(n, 30);
    let mut commands = String::new();
    for address in &addresses {
        let (mirror, generator) = (mac(*address), mac(1 << 31 | *address));
        let _ =
            writeln!(commands, "table_add mirror set_mac {mirror:#014x} => {mirror:#014x} {generator:#014x}");
    }
    let draw = Draw::new(skew, n, &mut random);
    let frame = |_| {
        let to = match random.percent(10) {
            true => any_mac(&mut random),
            false => mac(addresses[draw.next(&mut random)]),
        };
        let (from, source, destination) = (any_mac(&mut random), word(&mut random), word(&mut random));
        udp_frame(to, from, source, destination, half(&mut random), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// IPv4 and IPv6 with few rules for either: usual packets, IPv4 with options, fragments of IPv6 and IPv4.
fn dual_stack() -> Workload {
    const ROUTES: usize = 5000;
    let mut random = Random::new(0x6475_616c);
    let routes_v4 = routes(ROUTES, &mut random);
    let routes_v6: Vec<u128> =
        random.distinct(ROUTES, 32).iter().map(|prefix| 0x2 << 124 | u128::from(*prefix) << 80).collect();
    let mut commands = String::new();
    for (rule, dport) in [23u16, 25, 135, 139, 445, 1433, 3389].iter().enumerate() {
        let _ = writeln!(
            commands,
            "table_add acl_v4 deny 0&&&0 0&&&0 6&&&0xff 0->65535 {dport}->{dport} => {rule}\n\
             table_add acl_v6 deny ::&&&:: ::&&&:: 6&&&0xff 0->65535 {dport}->{dport} => {rule}"
        );
    }
    for (prefix, length, hop) in &routes_v4 {
        let _ = writeln!(commands, "table_add ipv4_lpm set_next_hop {}/{length} => {hop}", dotted(*prefix));
    }
    for (i, prefix) in routes_v6.iter().enumerate() {
        let (prefix, hop) = (Ipv6Addr::from(*prefix), i % NEXT_HOPS);
        let _ = writeln!(commands, "table_add ipv6_lpm set_next_hop {prefix}/48 => {hop}");
    }
    for hop in 0..NEXT_HOPS {
        let (dmac, port) = (mac(0x100 + hop as u64), hop % PORTS);
        let _ = writeln!(commands, "table_add next_hops send_to {hop} => {dmac:#014x} {port}");
    }
    for port in 0..PORTS {
        let _ = writeln!(
            commands,
            "table_add send_frame rewrite_mac {port} => {:#014x}",
            mac(0x900 + port as u64)
        );
    }
    let frame = |_| {
        // One of eight is denied.
        let dport = if random.below(8) == 0 { 445 } else { 443 };
        let sport = half(&mut random);
        let segment = tcp(&mut random, sport, dport, 20);
        let kind = random.below(10);
        if kind < 6 {
            let (prefix, length, _) = *random.pick(&routes_v4);
            let header = Ipv4::new(word(&mut random), within(prefix, length, &mut random), TCP);
            let packet = match kind {
                // No operation, eight times.
                0 => header.with_options(&[1; 8], &segment),
                _ => header.with(&segment),
            };
            return padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT);
        }
        let to = random.pick(&routes_v6) | random.bits(80);
        let from = 0x2 << 124 | random.bits(120);
        let packet = match kind {
            // A fragment header, of the first fragment.
            6 => ipv6(from, to, 44, &join(&[&[TCP, 0, 0, 1, 0, 0, 0, 7], &segment])),
            _ => ipv6(from, to, TCP, &segment),
        };
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV6), &packet])
    };
    let frames = (0..count(80)).map(frame).collect();
    Workload { commands, frames }
}
