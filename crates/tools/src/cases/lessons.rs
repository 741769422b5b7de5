//! Small programs of kinds that the P4 tutorials and well-known papers teach, in `programs/`.

use super::draw::{Draw, Skew};
use super::frames::{
    Ipv4, SHORT, TCP, TYPE_IPV4, UDP, any_mac, dotted, ethernet, half, join, mac, mask, padded, tcp, udp,
    udp_frame, word,
};
use super::shipped::{PORTS, routes, within};
use super::{Set, Workload, count};
use crate::random::Random;
use std::fmt::Write as _;

/// The text of a program in `programs/` behind the common declarations.
macro_rules! text {
    ($file:literal) => {
        concat!(include_str!("programs/common.p4"), include_str!(concat!("programs/", $file)))
    };
}

pub(super) fn add(set: &mut Set) {
    set.add("ECMP 4000 routes, 256 groups", "ecmp.p4", text!("ecmp.p4"), ecmp);
    set.add(
        "stateful firewall, a fifth refused",
        "flow_firewall.p4",
        text!("flow_firewall.p4"),
        flow_firewall,
    );
    set.add("policer 2000, a quarter red", "police.p4", text!("police.p4"), police);
    set.add("telemetry, 0 to 4 hops", "telemetry.p4", text!("telemetry.p4"), telemetry);
    set.add("source routing, 1 to 8 hops", "source_routing.p4", text!("source_routing.p4"), source_routing);
    set.add("monitor, a tenth copied", "monitor.p4", text!("monitor.p4"), monitor);
    set.add("multicast, a quarter to 3 ports", "multicast.p4", text!("multicast.p4"), multicast);
    set.add("MPLS 30000 labels", "mpls.p4", text!("mpls.p4"), mpls);
    set.add("overlays of three kinds, 512 bytes", "overlays.p4", text!("overlays.p4"), overlays);
    set.add("sketch and classes of service, Zipf", "sketch.p4", text!("sketch.p4"), sketch);
    set.add("cache 20000, Zipf", "cache.p4", text!("cache.p4"), cache);
}

/// Adds a group of these members to an action profile; it gets this number.
fn group(commands: &mut String, profile: &str, number: usize, members: impl Iterator<Item = usize>) {
    let _ = writeln!(commands, "act_prof_create_group {profile}");
    for member in members {
        let _ = writeln!(commands, "act_prof_add_member_to_group {profile} {member} {number}");
    }
}

/// TCP, UDP and others to groups of 1 to 16 paths.
fn ecmp() -> Workload {
    const GROUPS: usize = 256;
    const PATHS: usize = 512;
    let mut random = Random::new(0x6c65_6563);
    let mut commands = String::new();
    for path in 0..PATHS {
        let (dmac, smac, port) = (mac(0x1000 + path as u64), mac(0x900 + path as u64 % 32), path % 32);
        let _ = writeln!(commands, "act_prof_create_member paths to_path {dmac:#014x} {smac:#014x} {port}");
    }
    for number in 0..GROUPS {
        let (first, paths) = (random.below(PATHS), random.range(1, 16));
        group(&mut commands, "paths", number, (first..first + paths).map(|path| path % PATHS));
    }
    let routes = routes(4000, &mut random);
    for (prefix, length, _) in &routes {
        let (prefix, group) = (dotted(*prefix), random.below(GROUPS));
        let _ = writeln!(commands, "table_indirect_add_with_group routes {prefix}/{length} => {group}");
    }
    let frame = |_| {
        let (prefix, length, _) = *random.pick(&routes);
        let (sport, dport) = (half(&mut random), *random.pick(&[53, 80, 443]));
        let protocol = random.weighted(&[(TCP, 6), (UDP, 3), (1, 1)]);
        let segment = match protocol {
            TCP => tcp(&mut random, sport, dport, 20),
            _ => udp(sport, dport, &[0; 18]),
        };
        let packet =
            Ipv4::new(word(&mut random), within(prefix, length, &mut random), protocol).with(&segment);
        padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// Of ten packets, four leave the inside, four answer them, and two are refused, except for a few that the filters let pass.
fn flow_firewall() -> Workload {
    const FLOWS: usize = 1000;
    let mut random = Random::new(0x6c65_6677);
    let mut commands = format!("table_add ipv4_lpm forward 10.0.0.0/8 => {:#014x} 2\n", mac(0xa00));
    for i in 0..128u32 {
        let (prefix, dmac) = (dotted(1 << 31 | i << 24), mac(0x100 + u64::from(i)));
        let _ = writeln!(commands, "table_add ipv4_lpm forward {prefix}/8 => {dmac:#014x} {}", i % 2);
    }
    let flows: Vec<(u32, u32, u16)> = (0..FLOWS)
        .map(|_| (10 << 24 | word(&mut random) >> 8, 1 << 31 | word(&mut random), half(&mut random)))
        .collect();
    let frame = |_| {
        let (inside, peer, port) = *random.pick(&flows);
        let (source, destination, sport, dport) = match random.below(10) {
            0..4 => (inside, peer, port, 443),
            4..8 => (peer, inside, 443, port),
            _ => (1 << 31 | word(&mut random), inside, half(&mut random), port),
        };
        let segment = tcp(&mut random, sport, dport, 20);
        let packet = Ipv4::new(source, destination, TCP).with(&segment);
        padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// Some customers have rates that nothing exceeds, some the rate 0, and some none, so that time does not matter.
fn police() -> Workload {
    const CUSTOMERS: usize = 2000;
    let mut random = Random::new(0x6c65_706f);
    let mut commands = String::new();
    let addresses: Vec<u32> = random.distinct(CUSTOMERS, 24).iter().map(|i| 100 << 24 | *i as u32).collect();
    for (i, address) in addresses.iter().enumerate() {
        let _ =
            writeln!(commands, "table_add customers is_customer {} => {i} {}", dotted(*address), i % PORTS);
        let _ = match i % 4 {
            0 => writeln!(commands, "meter_set_rates rates {i} 0:0 0:0"),
            1 => writeln!(commands, "meter_set_rates rates {i} 0:0 1000000:1000000000"),
            2 => writeln!(commands, "meter_set_rates rates {i} 1000000:1000000000 2000000:2000000000"),
            _ => Ok(()),
        };
    }
    let draw = Draw::new(Skew::Even, CUSTOMERS, &mut random);
    let frame = |_| {
        let source = addresses[draw.next(&mut random)];
        udp_frame(mac(1), mac(2), source, word(&mut random), half(&mut random), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// Of six packets, one has no option, and the others have 0 to 4 hops; those with 4 get no more.
fn telemetry() -> Workload {
    let mut random = Random::new(0x6c65_7465);
    let mut commands = String::new();
    let routes = routes(2000, &mut random);
    for (prefix, length, hop) in &routes {
        let (prefix, dmac) = (dotted(*prefix), mac(0x100 + *hop as u64));
        let _ = writeln!(
            commands,
            "table_add ipv4_lpm forward {prefix}/{length} => {dmac:#014x} {}",
            hop % PORTS
        );
    }
    for port in 0..PORTS {
        let _ = writeln!(commands, "table_add cards add_hop {port} => {}", 100 + port);
    }
    let frame = |_| {
        let (prefix, length, _) = *random.pick(&routes);
        let header = Ipv4::new(word(&mut random), within(prefix, length, &mut random), UDP);
        let segment = udp(half(&mut random), 4321, &[0; 64]);
        let packet = match random.below(6) {
            5 => header.with(&segment),
            hops => {
                let mut option = vec![31, 4 + 8 * hops as u8, 0, hops as u8];
                option.extend((0..hops).flat_map(|hop| join(&[&(hop as u32).to_be_bytes(), &[0, 0, 1, 0]])));
                header.with_options(&option, &segment)
            }
        };
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet])
    };
    let frames = (0..count(130)).map(frame).collect();
    Workload { commands, frames }
}

fn source_routing() -> Workload {
    let mut random = Random::new(0x6c65_7372);
    let frame = |_| {
        let hops = random.range(1, 8);
        let mut stack = Vec::new();
        for hop in 0..hops {
            let last = u16::from(hop + 1 == hops);
            stack.extend((last << 15 | random.below(PORTS) as u16).to_be_bytes());
        }
        // One of 16 packets is not routed by its source.
        let ether_type = if random.below(16) == 0 { TYPE_IPV4 } else { 0x1234 };
        let packet = Ipv4::new(word(&mut random), word(&mut random), UDP).with(&udp(7, 7, &[0; 32]));
        join(&[&ethernet(mac(1), mac(2), ether_type), &stack, &packet])
    };
    let frames = (0..count(84)).map(frame).collect();
    Workload { commands: String::new(), frames }
}

/// A tenth of the packets matches one of 100 rules.
fn monitor() -> Workload {
    const STATIONS: usize = 4096;
    const RULES: u32 = 100;
    let mut random = Random::new(0x6c65_6d6f);
    let mut commands = "mirroring_add 5 7 100\n".to_string();
    let stations = random.distinct(STATIONS, 30);
    for (i, station) in stations.iter().enumerate() {
        let _ = writeln!(commands, "table_add stations forward {:#014x} => {}", mac(*station), i % PORTS);
    }
    let lengths = [24, 28, 32];
    for i in 0..RULES {
        let (to, port) = (mask(lengths[i as usize % 3]), if i % 2 == 0 { "53&&&0xffff" } else { "0&&&0" });
        let network = dotted(192 << 24 | i << 16);
        let _ = writeln!(commands, "table_add shown show 0&&&0 {network}&&&{to:#x} {port} => {i} {}", i + 1);
    }
    let frame = |_| {
        let station = mac(*random.pick(&stations));
        let destination = match random.percent(10) {
            true => 192 << 24 | (random.below(RULES as usize) as u32) << 16,
            false => word(&mut random) >> 1,
        };
        udp_frame(station, any_mac(&mut random), word(&mut random), destination, half(&mut random), 128)
    };
    let frames = (0..count(128)).map(frame).collect();
    Workload { commands, frames }
}

fn multicast() -> Workload {
    const STATIONS: usize = 8192;
    const CHANNELS: usize = 512;
    let mut random = Random::new(0x6c65_6d63);
    let mut commands = String::new();
    // A node for each of three ports, and a group for each pair of a tag and a set of nodes.
    for group in 1..=8 {
        let _ = writeln!(commands, "mc_mgrp_create {group}");
        for port in 1..=3 {
            let rid = 10 * group + port;
            let node = 3 * (group - 1) + port - 1;
            let _ = writeln!(
                commands,
                "mc_node_create {rid} {port}\nmc_node_associate {group} {node}\ntable_add subscribers to_subscribers {rid} => {}",
                100 + rid
            );
        }
    }
    for channel in 0..CHANNELS {
        let (source, to) = (dotted(10 << 24 | (channel as u32 % 16)), dotted(0xef00_0000 | channel as u32));
        let _ = writeln!(commands, "table_add groups to_group {source} {to} => {}", 1 + channel % 8);
    }
    let stations = random.distinct(STATIONS, 30);
    for (i, station) in stations.iter().enumerate() {
        let _ = writeln!(commands, "table_add stations forward {:#014x} => {}", mac(*station), i % PORTS);
    }
    let channels = Draw::new(Skew::Zipf, CHANNELS, &mut random);
    let frame = |_| match random.percent(25) {
        true => {
            let channel = channels.next(&mut random) as u32;
            let to = mac(channel.into()) | 0x0100 << 32;
            udp_frame(to, mac(2), 10 << 24 | (channel % 16), 0xef00_0000 | channel, half(&mut random), 256)
        }
        false => {
            let (to, destination) = (mac(*random.pick(&stations)), word(&mut random) >> 1);
            udp_frame(to, mac(2), word(&mut random), destination, half(&mut random), 256)
        }
    };
    let frames = (0..count(256)).map(frame).collect();
    Workload { commands, frames }
}

/// A quarter of the packets gets labels, half have one to three and keep or lose the first, the rest is of no known label.
fn mpls() -> Workload {
    const LABELS: usize = 30_000;
    let mut random = Random::new(0x6c65_6d70);
    let mut commands = String::new();
    let labels = random.distinct(LABELS, 20);
    let routes = routes(4000, &mut random);
    for (i, (prefix, length, hop)) in routes.iter().enumerate() {
        let (prefix, dmac, port) = (dotted(*prefix), mac(0x100 + *hop as u64), hop % PORTS);
        let (outer, label) = (*random.pick(&labels), *random.pick(&labels));
        let _ = match i % 3 {
            0 => writeln!(
                commands,
                "table_add classes push_two {prefix}/{length} => {outer} {label} {dmac:#014x} {port}"
            ),
            _ => writeln!(
                commands,
                "table_add classes push_one {prefix}/{length} => {label} {dmac:#014x} {port}"
            ),
        };
    }
    for (i, label) in labels.iter().enumerate() {
        let (next, dmac, port) = (random.pick(&labels), mac(0x200 + i as u64 % 64), i % PORTS);
        let _ = match i % 3 {
            0 => writeln!(commands, "table_add labels pop {label} => {dmac:#014x} {port}"),
            _ => writeln!(commands, "table_add labels swap {label} => {next} {dmac:#014x} {port}"),
        };
    }
    let frame = |_| {
        let (prefix, length, _) = *random.pick(&routes);
        let header = Ipv4::new(word(&mut random), within(prefix, length, &mut random), UDP);
        let packet = header.with(&udp(half(&mut random), 7, &[0; 32]));
        if random.percent(25) {
            return join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]);
        }
        let depth = random.range(1, 3);
        let mut stack = Vec::new();
        for i in 0..depth {
            let label = match i == 0 && random.percent(7) {
                true => random.bits(20) as u32,
                false => *random.pick(&labels) as u32,
            };
            stack.extend((label << 12 | u32::from(i + 1 == depth) << 8 | 64).to_be_bytes());
        }
        join(&[&ethernet(mac(1), mac(2), 0x8847), &stack, &packet])
    };
    let frames = (0..count(80)).map(frame).collect();
    Workload { commands, frames }
}

/// A quarter of the routes is direct; the others lead into tunnels of the three kinds.
fn overlays() -> Workload {
    const TUNNELS: usize = 3000;
    let mut random = Random::new(0x6c65_6f76);
    let mut commands = String::new();
    let routes = routes(10_000, &mut random);
    for (i, (prefix, length, hop)) in routes.iter().enumerate() {
        let prefix = dotted(*prefix);
        let _ = match i % 4 {
            0 => {
                let (dmac, port) = (mac(0x100 + *hop as u64), hop % PORTS);
                writeln!(commands, "table_add routes direct {prefix}/{length} => {dmac:#014x} {port}")
            }
            _ => writeln!(
                commands,
                "table_add routes through {prefix}/{length} => {}",
                1 + random.below(TUNNELS)
            ),
        };
    }
    for tunnel in 1..=TUNNELS {
        let (source, destination) = (dotted(0x0a00_0001), dotted(10 << 24 | word(&mut random) >> 8));
        let (kind, teid) = match tunnel % 3 {
            0 => ("ip_in_ip", String::new()),
            1 => ("gre", String::new()),
            _ => ("gtp", format!(" {}", 1000 + tunnel)),
        };
        let (dmac, port) = (mac(0x200 + tunnel as u64 % 64), tunnel % PORTS);
        let _ = writeln!(
            commands,
            "table_add tunnels {kind} {tunnel} => {source} {destination} {dmac:#014x} {port}{teid}"
        );
    }
    for port in 0..PORTS {
        let _ = writeln!(commands, "table_add ports from {port} => {:#014x}", mac(0x900 + port as u64));
    }
    let frame = |_| {
        let (prefix, length, _) = *random.pick(&routes);
        let to = within(prefix, length, &mut random);
        udp_frame(mac(1), mac(2), word(&mut random), to, half(&mut random), 512)
    };
    let frames = (0..count(512)).map(frame).collect();
    Workload { commands, frames }
}

/// Few flows are heavy. A quarter of the packets is not UDP; 5 % are of no customer, and leave as they are.
fn sketch() -> Workload {
    const CUSTOMERS: usize = 1500;
    const FLOWS: usize = 20_000;
    let mut random = Random::new(0x6c65_736b);
    let mut commands = String::new();
    let networks: Vec<u32> =
        random.distinct(CUSTOMERS, 16).iter().map(|i| 20 << 24 | (*i as u32) << 8).collect();
    for (i, network) in networks.iter().enumerate() {
        let (network, customer) = (network >> 8, 1 + i);
        let _ = writeln!(commands, "table_add customers is_customer {network} => {customer} {}", i % PORTS);
    }
    for i in 0..200 {
        let source = *random.pick(&["0->65535", "1024->65535", "0->1023"]);
        let low = random.below(60_000);
        let high = low + random.below(5000);
        let dscp = if i % 3 == 0 { "46&&&0x3f" } else { "0&&&0" };
        let customer =
            if i % 2 == 0 { format!("{}", 1 + random.below(CUSTOMERS)) } else { "0&&&0".to_string() };
        let _ = writeln!(
            commands,
            "table_add classes set_class {source} {low}->{high} {dscp} {customer} => {} {}",
            i % 64,
            i + 1
        );
    }
    let flows: Vec<(u32, u32)> =
        (0..FLOWS).map(|_| (word(&mut random), random.pick(&networks) | random.bits(8) as u32)).collect();
    let draw = Draw::new(Skew::Zipf, FLOWS, &mut random);
    let frame = |_| {
        let (source, mut destination) = flows[draw.next(&mut random)];
        if random.percent(5) {
            destination = word(&mut random) | 1 << 31;
        }
        let (sport, dport) = (half(&mut random), half(&mut random));
        let (protocol, segment) = match random.percent(25) {
            true => (TCP, tcp(&mut random, sport, dport, 20)),
            false => (UDP, udp(sport, dport, &[0; 18])),
        };
        let mut packet = Ipv4::new(source, destination, protocol).with(&segment);
        if random.percent(30) {
            packet[1] = 46 << 2;
        }
        padded(join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet]), SHORT)
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// 70 % of the packets ask for a key that the switch holds, 25 % for others; the rest writes and answers.
fn cache() -> Workload {
    const KEYS: usize = 20_000;
    let mut random = Random::new(0x6c65_6361);
    let mut commands = String::new();
    let keys: Vec<u128> = (0..KEYS).map(|_| random.bits(128)).collect();
    for (i, key) in keys.iter().enumerate() {
        let _ = writeln!(commands, "table_add keys holds {key:#x} => {i}");
    }
    for i in (0..KEYS).filter(|i| i % 16 > 0) {
        let _ = writeln!(commands, "register_write valid {i} 1");
    }
    let draw = Draw::new(Skew::Zipf, KEYS, &mut random);
    let frame = |_| {
        let held = keys[draw.next(&mut random)];
        let (op, key) = match random.below(100) {
            0..70 => (0, held),
            70..95 => (0, random.bits(128)),
            95..98 => (1, held),
            _ => (2, held),
        };
        let query = join(&[&[op, 0, 0, 0], &key.to_be_bytes(), &random.bits(128).to_be_bytes()]);
        let packet =
            Ipv4::new(word(&mut random), 0x0a00_0001, UDP).with(&udp(half(&mut random), 8888, &query));
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV4), &packet])
    };
    let frames = (0..count(78)).map(frame).collect();
    Workload { commands, frames }
}
