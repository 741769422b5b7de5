//! programs/vxlan_gateway: clients' packets get tunnels, and lose them, as `p4jet-lab workload` makes them; and a tenant's
//! network that is bridged into VLANs and tunnels.

use super::draw::{Draw, Skew};
use super::frames::{
    Ipv4, LONG, PORT_VXLAN, SHORT, TCP, TYPE_IPV4, UDP, any_mac, dotted, ethernet, half, join, mac, mask,
    tcp, udp, udp_frame, vxlan, word,
};
use super::{Set, Workload, count};
use crate::random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const GATEWAY: &str = include_str!("../../../../programs/vxlan_gateway/vxlan_gateway.p4");

/// The gateway's own MAC addresses: towards clients and VTEPs, and towards servers.
const EDGE: u64 = 1 << 31;
const SERVERS: u64 = 1 << 31 | 2;
const VTEP: u32 = 0x0a00_0001;
const VTEPS: usize = 64;
/// A pool for every 16 virtual addresses, up to a number.
const POOLS_MAX: usize = 16_000;
const MEMBERS: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Inbound,
    Outbound,
}

pub(super) fn add(set: &mut Set) {
    use Direction::{Inbound, Outbound};
    for (name, direction, entries, skew, bytes) in [
        ("gateway inbound 1024, Zipf", Inbound, 1024, Skew::Zipf, SHORT),
        ("gateway inbound 50000", Inbound, 50_000, Skew::Even, SHORT),
        ("gateway outbound 64, 1500 bytes", Outbound, 64, Skew::Even, LONG),
        ("gateway outbound 100000", Outbound, 100_000, Skew::Even, 110),
    ] {
        set.add(name, "vxlan_gateway.p4", GATEWAY, move || routed(direction, entries, skew, bytes));
    }
    set.add("gateway bridge 16384, VLANs and tunnels", "vxlan_gateway.p4", GATEWAY, bridged);
}

/// The far end of tunnel `v`, counted from 1.
fn peer(v: usize) -> u32 {
    VTEP + 256 * v as u32
}

/// The way to each VTEP, and the headers: of IPv4 for those from 1 to `last_v4`, else of IPv6.
fn tunnels(commands: &mut String, last_v4: usize, mtu: usize) {
    for v in 1..=VTEPS {
        let (edge, hop) = (mac(EDGE), mac(1 << 30 | v as u64));
        let _ = writeln!(commands, "table_add vteps via {v} => 1 {mtu}");
        let _ = match v <= last_v4 {
            true => writeln!(
                commands,
                "table_add encapsulations encapsulate_v4 {v} => {edge:#014x} {hop:#014x} 0 {} {} 64 49152 16383",
                dotted(VTEP),
                dotted(peer(v))
            ),
            false => writeln!(
                commands,
                "table_add encapsulations encapsulate_v6 {v} => {edge:#014x} {hop:#014x} 0 fd00::1 fd00::{v:x}:2 64 \
                 49152 16383"
            ),
        };
    }
}

fn routed(direction: Direction, entries: usize, skew: Skew, bytes: usize) -> Workload {
    let inbound = direction == Direction::Inbound;
    let mut random = Random::new(0x6777_0000_0000 + entries as u64 * 2 + u64::from(inbound));
    let pools = entries.div_ceil(16).min(POOLS_MAX);
    let (edge, servers) = (mac(EDGE), mac(SERVERS));
    // All packets arrive at port 0.
    let role = if inbound { "external" } else { "underlay" };
    let mut commands = format!(
        "table_add attachments {role} 0 0 => 0 {edge:#014x}\npvs_add own_vteps_v4 {}\n",
        dotted(VTEP)
    );
    tunnels(&mut commands, VTEPS, 1500);
    for v in 1..=VTEPS {
        let _ =
            writeln!(commands, "table_add tunnels_v4 from_vtep {} {} => {v}", dotted(VTEP), dotted(peer(v)));
        let _ = writeln!(commands, "table_add vnis into {} => {v} 0 {servers:#014x} 0 0", 99 + v);
    }
    // Next hops to clients come first, then those to back ends.
    for hop in 1..=64 {
        let client = mac(1 << 29 | hop);
        let _ = writeln!(commands, "table_add next_hops local {hop} => 1 0 {edge:#014x} {client:#014x} 1500");
    }
    for back_end in 0..4 * pools {
        let (v, address) = (random.range(1, VTEPS), mac(back_end as u64));
        let _ = writeln!(
            commands,
            "table_add next_hops tunnel {} => {v} {} {v} {servers:#014x} {address:#014x}",
            65 + back_end,
            99 + v
        );
    }
    for pool in 0..pools {
        let _ = writeln!(commands, "act_prof_create_group members");
        for member in 0..MEMBERS {
            let hop = 65 + 4 * pool + member % 4;
            let _ = writeln!(
                commands,
                "act_prof_create_member members to_next_hop {hop}\nact_prof_add_member_to_group members {} {pool}",
                MEMBERS * pool + member
            );
        }
        let _ = writeln!(commands, "table_indirect_add_with_group pools {} => {pool}", pool + 1);
    }
    let addresses: Vec<u32> = random.distinct(entries, 24).iter().map(|i| 0x0800_0000 | *i as u32).collect();
    for (i, address) in addresses.iter().enumerate() {
        let _ =
            writeln!(commands, "table_add hosts_v4 balance 0 {} => {} 0", dotted(*address), i % pools + 1);
    }
    let mut routes = BTreeMap::new();
    while routes.len() < entries {
        let length = random.weighted(&[(24, 60), (23, 12), (22, 15), (20, 9), (16, 4)]);
        routes.insert((client(&mut random) & mask(length), length), random.range(1, 64));
    }
    for ((prefix, length), hop) in &routes {
        let _ = writeln!(commands, "table_add routes_v4 to_next_hop 0 {}/{length} => {hop}", dotted(*prefix));
    }
    let prefixes: Vec<(u32, u32)> = routes.into_keys().collect();
    let draw = Draw::new(skew, entries, &mut random);
    let frame = |_| {
        let (sport, at) = (half(&mut random) | 1024, draw.next(&mut random));
        if inbound {
            let segment = tcp(&mut random, sport, 80, bytes - 34);
            let packet = Ipv4::new(client(&mut random), addresses[at], TCP).with(&segment);
            return join(&[&ethernet(edge, any_mac(&mut random), TYPE_IPV4), &packet]);
        }
        let (prefix, length) = prefixes[at];
        let to = prefix | word(&mut random) & !mask(length);
        let v = random.range(1, VTEPS);
        let segment = tcp(&mut random, sport, 80, bytes - 84);
        let packet = Ipv4::new(*random.pick(&addresses), to, TCP).with(&segment);
        let back_end = mac(random.below(4 * pools) as u64);
        let inner = join(&[&ethernet(servers, back_end, TYPE_IPV4), &packet]);
        let tunnel = udp(0xc000 | half(&mut random), PORT_VXLAN, &vxlan(99 + v as u32, &inner));
        let outer = Ipv4::new(peer(v), VTEP, UDP).with(&tunnel);
        join(&[&ethernet(edge, mac(1 << 30 | v as u64), TYPE_IPV4), &outer])
    };
    let frames = (0..count(bytes)).map(frame).collect();
    Workload { commands, frames }
}

/// Any unicast address that is not one of the gateway's.
fn client(random: &mut Random) -> u32 {
    0x4000_0000 + (word(random) >> 2) % 0x3f00_0000
}

/// Frames between known stations of one network: a third each to a VLAN, into a tunnel over IPv4, and over IPv6. Of those to
/// VTEPs, 3 % are too long, and so are dropped.
fn bridged() -> Workload {
    const STATIONS: usize = 16_384;
    let mut random = Random::new(0x6777_6272);
    let own = mac(EDGE);
    let mut commands = format!("table_add attachments tenant 0 0 => 1 0 {own:#014x} 100 0 1\n");
    tunnels(&mut commands, VTEPS / 2, 1000);
    let stations = random.distinct(STATIONS, 30);
    for (i, station) in stations.iter().enumerate() {
        let station = mac(*station);
        let (macs, at) = match i % 4 {
            0 => ("local 1", "0 0".to_string()),
            1 => ("local 1", format!("{} {}", 1 + i / 4 % 4, 10 + i / 4 % 4)),
            2 => ("remote 1", format!("{}", 1 + i / 4 % (VTEPS / 2))),
            _ => ("remote 1", format!("{}", 1 + VTEPS / 2 + i / 4 % (VTEPS / 2))),
        };
        let _ = writeln!(commands, "table_add macs {macs} {station:#014x} => {at}");
        if i % 4 == 0 {
            let _ = writeln!(commands, "table_add stations at 1 {station:#014x} => 0");
        }
    }
    let frame = |_| {
        let from = mac(stations[4 * random.below(STATIONS / 4)]);
        let to = mac(stations[4 * random.below(STATIONS / 4) + random.range(1, 3)]);
        let bytes = if random.percent(3) { 1100 } else { 128 };
        udp_frame(to, from, word(&mut random), word(&mut random), half(&mut random), bytes)
    };
    let frames = (0..count(160)).map(frame).collect();
    Workload { commands, frames }
}
