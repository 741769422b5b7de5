//! The programs of programs/nf_catalogue.

use super::draw::{Draw, Skew};
use super::frames::{
    Ipv4, LONG, PORT_VXLAN, SHORT, TCP, TYPE_IPV4, UDP, any_mac, dotted, ethernet, half, internet_checksum,
    join, mac, mask, padded, tcp, udp, vxlan, word,
};
use super::shipped::{PORTS, routes, within};
use super::{Set, Workload, count};
use crate::random::Random;
use std::fmt::Write as _;

/// The text of a program of the catalogue.
macro_rules! text {
    ($name:literal) => {
        include_str!(concat!("../../../../programs/nf_catalogue/", $name, "/", $name, ".p4"))
    };
}

pub(super) fn add(set: &mut Set) {
    set.add("firewall 300, half dropped", "firewall.p4", text!("firewall"), firewall);
    set.add("L2 chain 4096, Zipf", "l2fwd.p4", text!("l2fwd"), l2fwd);
    set.add("L3 chain 20000, 512 bytes", "l3fwd.p4", text!("l3fwd"), || l3fwd(20_000, 512, None));
    set.add("L3 chain 1000 with UDP firewall", "l3fwd_firewall.p4", text!("l3fwd_firewall"), || {
        l3fwd(1000, SHORT, Some(64))
    });
    set.add("load balancer of the catalogue", "load_balancer.p4", text!("load_balancer"), load_balancer);
    set.add("NAT 1000", "nat.p4", text!("nat"), nat);
    set.add("tunnels 30000", "tunneling.p4", text!("tunneling"), tunneling);
    set.add("VXLAN decapsulation 1000", "vxlan_decap.p4", text!("vxlan_decap"), || decap(false, 1000, 60));
    set.add(
        "VXLAN decapsulation behind PTP 2000, long",
        "vxlan_decap_ptp.p4",
        text!("vxlan_decap_ptp"),
        || decap(true, 2000, 1300),
    );
}

/// Rules with 12 pairs of prefix lengths. Of the packets, half match a rule that permits, a quarter one that drops, most of
/// the others none, and a few are not IP.
fn firewall() -> Workload {
    const RULES: usize = 300;
    let mut random = Random::new(0x6e66_6677);
    let mut commands = String::new();
    let mut rules = Vec::new();
    for i in 0..RULES {
        let (from, to) = (*random.pick(&[0, 8, 24, 32]), *random.pick(&[16, 24, 32]));
        // Nobody else has these addresses.
        let (source, destination) = (word(&mut random) & mask(from), 0xc000_0000 | (i as u32 * 0x1f351));
        let protocol = *random.pick(&[TCP, UDP, UDP]);
        let low = *random.pick(&[0, 53, 1024]);
        let ports =
            if protocol == TCP { (0, 65535) } else { (low, low + *random.pick(&[0u16, 100, 30_000])) };
        let drops = i % 3 == 2;
        let _ = writeln!(
            commands,
            "table_add rules {} {}&&&{:#x} {}&&&{:#x} {protocol}&&&0xff {}->{} => {}",
            if drops { "drop" } else { "permit" },
            dotted(source),
            mask(from),
            dotted(destination & mask(to)),
            mask(to),
            ports.0,
            ports.1,
            random.range(1, 1000)
        );
        rules.push((drops, (source, from), (destination & mask(to), to), protocol, ports));
    }
    let (dropping, permitting): (Vec<_>, Vec<_>) = rules.into_iter().partition(|(drops, ..)| *drops);
    let frame = |_| {
        let kind = random.below(40);
        let rule = random.pick(if kind < 20 { &permitting } else { &dropping });
        let (_, (source, from), (destination, to), protocol, (low, high)) = *rule;
        let source = within(source, from, &mut random);
        let destination =
            if kind < 30 { within(destination, to, &mut random) } else { word(&mut random) >> 1 };
        let (sport, dport) = (half(&mut random), random.range(low.into(), high.into()) as u16);
        let segment = match protocol {
            TCP => tcp(&mut random, sport, dport, 20),
            _ => udp(sport, dport, &[0; 18]),
        };
        let ether_type = if kind == 39 { 0x0806 } else { TYPE_IPV4 };
        let packet = Ipv4::new(source, destination, protocol).with(&segment);
        padded(join(&[&ethernet(mac(1), mac(2), ether_type), &packet]), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// 5 % of the frames are for nobody.
fn l2fwd() -> Workload {
    const HOPS: usize = 4096;
    let mut random = Random::new(0x6e66_6c32);
    let hops = random.distinct(HOPS, 30);
    let mut commands = String::new();
    for (i, hop) in hops.iter().enumerate() {
        let (at, next, port) = (mac(*hop), mac(1 << 31 | *hop), i % PORTS);
        let _ = writeln!(commands, "table_add hops to_next_hop {at:#014x} => {next:#014x} {port}");
    }
    let draw = Draw::new(Skew::Zipf, HOPS, &mut random);
    let frame = |_| {
        let hop = mac(hops[draw.next(&mut random)]);
        let to = if random.percent(5) { any_mac(&mut random) } else { hop };
        let packet = Ipv4::new(word(&mut random), word(&mut random), UDP).with(&udp(7, 7, &[0; 18]));
        join(&[&ethernet(to, any_mac(&mut random), TYPE_IPV4), &packet])
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// `ports` is the number of listed UDP ports, half of them to drop: 30 % of the packets go to one of these, 20 % are TCP.
fn l3fwd(n: usize, bytes: usize, ports: Option<usize>) -> Workload {
    let mut random = Random::new(0x6e66_6c33 + n as u64);
    let routes = routes(n, &mut random);
    let mut commands = String::new();
    for (prefix, length, hop) in &routes {
        let (prefix, dmac, port) = (dotted(*prefix), mac(0x100 + *hop as u64), hop % PORTS);
        let _ = writeln!(commands, "table_add ipv4_lpm route {prefix}/{length} => {dmac:#014x} {port}");
    }
    let listed: Vec<u64> = ports.map(|ports| random.distinct(ports, 16)).unwrap_or_default();
    for (i, port) in listed.iter().enumerate() {
        let _ = writeln!(
            commands,
            "table_add udp_ports {} {port} =>",
            if i % 2 == 0 { "drop" } else { "permit" }
        );
    }
    let frame = |_| {
        let (prefix, length, _) = *random.pick(&routes);
        // 5 % have no route, or that of an unlikely prefix.
        let destination =
            if random.percent(5) { word(&mut random) } else { within(prefix, length, &mut random) };
        let dport = match listed.is_empty() || random.percent(40) {
            true => half(&mut random),
            false => *random.pick(&listed) as u16,
        };
        let sport = half(&mut random);
        let (protocol, segment) = match random.percent(20) {
            true => (TCP, tcp(&mut random, sport, dport, bytes - 34)),
            false => (UDP, udp(sport, dport, &vec![0; bytes - 42])),
        };
        let packet = Ipv4::new(word(&mut random), destination, protocol).with(&segment);
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet])
    };
    let frames = (0..count(bytes)).map(frame).collect();
    Workload { commands, frames }
}

/// All 256 buckets; a third of the packets is TCP.
fn load_balancer() -> Workload {
    let mut random = Random::new(0x6e66_6c62);
    let mut commands = String::new();
    for bucket in 0..256 {
        let _ = writeln!(commands, "table_add servers to_server {bucket} => {}", 1 + random.below(16));
    }
    let frame = |_| {
        let (source, destination) = (word(&mut random), 0xc633_6401);
        let (sport, dport) = (half(&mut random), 443);
        let (protocol, segment) = match random.percent(33) {
            true => (TCP, tcp(&mut random, sport, dport, 20)),
            false => (UDP, udp(sport, dport, &[0; 18])),
        };
        let packet = Ipv4::new(source, destination, protocol).with(&segment);
        padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// 500 flows in both directions, half of the packets with a UDP checksum; 10 % are of no flow.
fn nat() -> Workload {
    const FLOWS: usize = 500;
    let mut random = Random::new(0x6e66_6e61);
    let mut commands = String::new();
    let flows: Vec<(u32, u16, u16)> = (0..FLOWS)
        .map(|i| (0x0a00_0000 | word(&mut random) >> 8, half(&mut random), 40_000 + i as u16))
        .collect();
    let outside = 0xcb00_7101;
    for (inside, port, outside_port) in &flows {
        let (inside, outside) = (dotted(*inside), dotted(outside));
        let _ = writeln!(
            commands,
            "table_add translations translate_source {inside}&&&0xffffffff {port}&&&0xffff 0&&&0 0&&&0 \
             => {outside} {outside_port} 1 1\n\
             table_add translations translate_destination 0&&&0 0&&&0 {outside}&&&0xffffffff \
             {outside_port}&&&0xffff => {inside} {port} 0 1"
        );
    }
    let frame = |_| {
        let (inside, port, outside_port) = *random.pick(&flows);
        let (peer, peer_port) = (word(&mut random) | 1 << 31, half(&mut random));
        let (source, destination, sport, dport) = match random.below(10) {
            0 => (peer, 0xcb00_7102, peer_port, 9),
            1..5 => (inside, peer, port, peer_port),
            _ => (peer, outside, peer_port, outside_port),
        };
        let mut segment = udp(sport, dport, &[0; 18]);
        if random.percent(50) {
            let pseudo = [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0, UDP, 0, 26]].concat();
            let checksum = internet_checksum(&join(&[&pseudo, &segment]));
            segment[6..8].copy_from_slice(&checksum.to_be_bytes());
        }
        let packet = Ipv4::new(source, destination, UDP).with(&segment);
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet])
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

fn tunneling() -> Workload {
    const TUNNELS: u16 = 30_000;
    let mut random = Random::new(0x6e66_7475);
    let mut commands = String::new();
    for id in 0..TUNNELS {
        // An odd factor: all are different.
        let _ = writeln!(commands, "table_add tunnels forward {} => {}", id.wrapping_mul(40_503), id % 8);
    }
    let frame = |_| {
        let id = (random.below(TUNNELS.into()) as u16).wrapping_mul(40_503);
        let packet = Ipv4::new(word(&mut random), word(&mut random), UDP).with(&udp(7, 7, &[0; 14]));
        let tunnel = join(&[&TYPE_IPV4.to_be_bytes(), &id.to_be_bytes()]);
        join(&[&ethernet(mac(1), any_mac(&mut random), 0x1212), &tunnel, &packet])
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// Tunnels of `n` networks, with frames of up to `bytes` bytes, a fifth of them TCP; 5 % are of other networks.
fn decap(ptp: bool, n: usize, bytes: usize) -> Workload {
    let mut random = Random::new(0x6e66_7664 + n as u64);
    let networks = random.distinct(n, 24);
    let mut commands = "table_add uplinks accept_tunnels 0 =>\n".to_string();
    for (i, vni) in networks.iter().enumerate() {
        let _ = writeln!(commands, "table_add networks decapsulate {vni} => {}", 1 + i % PORTS);
    }
    let frame = |_| {
        let vni = match random.percent(5) {
            true => random.bits(24) as u32,
            false => *random.pick(&networks) as u32,
        };
        let (sport, bytes) = (half(&mut random), random.range(60.min(bytes), bytes));
        let (protocol, segment) = match random.percent(20) {
            true => (TCP, tcp(&mut random, sport, 80, bytes - 34)),
            false => (UDP, udp(sport, 80, &vec![0; bytes - 42])),
        };
        let inner = Ipv4::new(word(&mut random), word(&mut random), protocol).with(&segment);
        let inner = join(&[&ethernet(any_mac(&mut random), any_mac(&mut random), TYPE_IPV4), &inner]);
        let tunnel = udp(0xc000 | half(&mut random), PORT_VXLAN, &vxlan(vni, &inner));
        let outer = Ipv4::new(0x0a00_0002, 0x0a00_0001, UDP).with(&tunnel);
        let outer = join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &outer]);
        if !ptp {
            return outer;
        }
        let mut message = [0; 34];
        message[1] = 2;
        message[30..32].copy_from_slice(&half(&mut random).to_be_bytes());
        let message = udp(319, 319, &join(&[&message, &outer]));
        let packet = Ipv4::new(0x0a00_0004, 0x0a00_0003, UDP).with(&message);
        join(&[&ethernet(mac(3), mac(4), TYPE_IPV4), &packet])
    };
    let frames = (0..count(if bytes < LONG / 2 { 110 } else { LONG / 2 })).map(frame).collect();
    Workload { commands, frames }
}
