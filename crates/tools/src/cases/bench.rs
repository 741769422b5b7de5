//! The programs of bench/programs, with entries and packets like those of bench/*.py.

use super::draw::{Draw, Skew};
use super::frames::{
    Ipv4, PORT_VXLAN, SHORT, TCP, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, UDP, dotted, ethernet, half, ipv6, join,
    mac, padded, tcp, udp, vxlan, word,
};
use super::shipped::{NEXT_HOPS, PORTS};
use super::{Set, Workload, count};
use crate::random::Random;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::net::Ipv6Addr;

const IPV6_ROUTER: &str = include_str!("../../../../bench/programs/ipv6_router.p4");
const TWELVE_TABLES: &str = include_str!("../../../../bench/programs/twelve_tables.p4");
const DEEP_TUNNEL: &str = include_str!("../../../../bench/programs/deep_tunnel.p4");

pub(super) fn add(set: &mut Set) {
    set.add("ipv6 2000, Zipf, some without a route", "ipv6_router.p4", IPV6_ROUTER, || {
        ipv6_router(2000, Skew::Zipf, 10)
    });
    set.add("ipv6 200000", "ipv6_router.p4", IPV6_ROUTER, || ipv6_router(200_000, Skew::Even, 0));
    set.add("twelve tables 1024", "twelve_tables.p4", TWELVE_TABLES, || twelve_tables(1024, 0));
    set.add("twelve tables 64, a fifth misses one", "twelve_tables.p4", TWELVE_TABLES, || {
        twelve_tables(64, 20)
    });
    set.add("deep tunnel 1024", "deep_tunnel.p4", DEEP_TUNNEL, || deep_tunnel(1024, 20));
    set.add("deep tunnel 64, 700 bytes", "deep_tunnel.p4", DEEP_TUNNEL, || deep_tunnel(64, 700));
}

/// How often each length of a prefix is tried, about as in the global table of the mid-2020s.
const LENGTHS: [(u32, usize); 29] = [
    (20, 1),
    (22, 1),
    (24, 2),
    (28, 3),
    (29, 33),
    (30, 6),
    (31, 5),
    (32, 125),
    (33, 22),
    (34, 16),
    (35, 12),
    (36, 52),
    (37, 8),
    (38, 14),
    (39, 10),
    (40, 82),
    (41, 8),
    (42, 26),
    (43, 10),
    (44, 94),
    (45, 14),
    (46, 26),
    (47, 22),
    (48, 500),
    (52, 1),
    (56, 3),
    (60, 1),
    (64, 2),
    (128, 1),
];
/// Blocks of the registries: the first 16 bits and the number of /16, with weights.
const ALLOCATIONS: [((u32, usize), usize); 7] = [
    ((0x2001, 1), 6),
    ((0x2400, 16), 24),
    ((0x2600, 16), 16),
    ((0x2800, 16), 12),
    ((0x2a00, 16), 28),
    ((0x2a10, 6), 8),
    ((0x2c0f, 1), 6),
];
/// Blocks for single /48: the first 48 bits, and how many of these bits vary.
const SINGLES: [(u64, u32); 6] = [
    (0x2001_0678_0000, 19),
    (0x2001_07f8_0000, 16),
    (0x2001_0df0_0000, 19),
    (0x2001_13c0_0000, 18),
    (0x2001_43f8_0000, 19),
    (0x2620_0000_0000, 25),
];

/// All prefixes so far, as bench/ipv6.py makes them.
struct Prefixes {
    random: Random,
    found: Vec<(u128, u32)>,
    seen: HashSet<(u128, u32)>,
    /// Prefixes from which longer ones come, once for each.
    holders: Vec<(u128, u32)>,
    /// First free /32 of each /16.
    next: HashMap<u32, usize>,
}

impl Prefixes {
    /// The next free allocation in a registry's block, in steps of its size.
    fn allocation(&mut self, length: u32) -> u128 {
        let random = &mut self.random;
        let (first, count) = random.weighted(&ALLOCATIONS);
        if length <= 24 {
            let top = u128::from(first) + random.below(count) as u128;
            return top << 112 | random.bits(8) << 104;
        }
        let top = first + random.below(count).min(random.below(count)) as u32;
        let step = 1usize << 32u32.saturating_sub(length);
        let free = *self.next.get(&top).unwrap_or(&if top == 0x2001 { 0x200 } else { 0 });
        let mut at = free.next_multiple_of(step) + step * random.pick(&[0, 0, 0, 1, 3, 7]);
        if at + step > 1 << 16 {
            at = random.below(1 << 16) / step * step;
        }
        self.next.insert(top, at + step);
        u128::from(top) << 112 | (at as u128) << 96
    }

    /// A part of a holder's allocation.
    fn part(&mut self, length: u32) -> u128 {
        if self.holders.is_empty() {
            return self.allocation(32);
        }
        let random = &mut self.random;
        let holder = *random.pick(&self.holders);
        let bits = length - holder.1;
        // Some are anywhere, most are near the start: geometrically distributed with a mean of 24.
        let mut at = match random.percent(30) {
            true => random.bits(bits),
            false => {
                let near = (0..1000).take_while(|_| random.below(25) > 0).count() as u128;
                near.min((1 << bits) - 1)
            }
        };
        if length > 64 {
            at = (at << (length - 64) | random.bits(length - 64)) & ((1 << bits) - 1);
        }
        self.holders.push(holder);
        holder.0 | at << (128 - length)
    }

    fn add(&mut self) {
        let length = self.random.weighted(&LENGTHS);
        let prefix = match length {
            ..=32 => self.allocation(length),
            48 if self.random.percent(25) => {
                let (block, bits) = *self.random.pick(&SINGLES);
                let at = self.random.bits(bits).min(self.random.bits(bits));
                (u128::from(block) | at) << 80
            }
            _ => self.part(length),
        };
        let prefix = prefix >> (128 - length) << (128 - length);
        if self.seen.insert((prefix, length)) {
            self.found.push((prefix, length));
            if (25..=32).contains(&length) {
                self.holders.push((prefix, length));
            }
        }
    }
}

fn ipv6_router(n: usize, skew: Skew, unknown_percent: usize) -> Workload {
    let mut prefixes = Prefixes {
        random: Random::new(0x6970_7636_0000_0000 + n as u64),
        found: Vec::new(),
        seen: HashSet::new(),
        holders: Vec::new(),
        next: HashMap::new(),
    };
    while prefixes.found.len() < n {
        prefixes.add();
    }
    let Prefixes { mut random, found, .. } = prefixes;
    let mut commands = String::new();
    for (prefix, length) in &found {
        let (prefix, hop) = (Ipv6Addr::from(*prefix), random.below(NEXT_HOPS));
        let _ = writeln!(commands, "table_add ipv6_lpm set_nhop {prefix}/{length} => {hop} {}", hop % PORTS);
    }
    for hop in 0..NEXT_HOPS {
        let _ = writeln!(commands, "table_add neighbors set_dmac {hop} => {:#014x}", mac(0x100 + hop as u64));
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
        let (prefix, length) = found[draw.next(&mut random)];
        let to = match random.percent(unknown_percent) {
            true => 0xfe << 120 | random.bits(120),
            false => prefix | random.bits(128 - length),
        };
        let from = 0x2001_0db8 << 96 | random.bits(64);
        // Next header 59: none follows (RFC 8200, section 4.7).
        let packet = ipv6(from, to, 59, &[0; SHORT - 54]);
        join(&[&ethernet(mac(1), mac(2), TYPE_IPV6), &packet])
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// `n` entries, a power of two, in each table: each maps to a shuffled number below `n`, and the xor of such numbers is one
/// too. `missing_percent` of the packets miss one of the first tables; that table's number is then 0, and they go on.
fn twelve_tables(n: usize, missing_percent: usize) -> Workload {
    let mut random = Random::new(0x7477_656c_7665 + n as u64);
    let [sources, destinations] = [30, 30].map(|bits| random.distinct(n, bits));
    let tenants: Vec<u32> = random.distinct(n, 24).iter().map(|i| 10 << 24 | *i as u32).collect();
    // 20.0.0.0 to 147.255.255.0
    let prefixes: Vec<u32> = random.distinct(n, 22).iter().map(|i| (20 << 24) + (*i as u32) * 512).collect();
    let [source_ports, destination_ports] = [16, 16].map(|bits| random.distinct(n, bits));
    let mut commands = String::new();
    let mut order: Vec<usize> = (0..n).collect();
    let mut table =
        |random: &mut Random, head: &str, key: &dyn Fn(usize) -> String, data: &dyn Fn(usize) -> String| {
            random.shuffle(&mut order);
            for (row, number) in order.iter().enumerate() {
                let _ = writeln!(commands, "table_add {head} {} => {}", key(row), data(*number));
            }
        };
    let station = |i: u64| format!("{:#014x}", mac(i));
    let plain = |i: usize| i.to_string();
    let random = &mut random;
    table(random, "stations set_station", &|row| station(sources[row]), &plain);
    table(random, "bridges set_bridge", &|row| station(destinations[row]), &plain);
    table(random, "tenants set_tenant", &|row| dotted(tenants[row]).to_string(), &plain);
    table(random, "services set_service", &|row| format!("17 {}", source_ports[row]), &plain);
    table(random, "segments set_segment", &|row| format!("17 {}", destination_ports[row]), &plain);
    table(random, "routes set_route", &|row| format!("{}/24", dotted(prefixes[row])), &plain);
    table(random, "zones set_zone", &plain, &plain);
    table(random, "contracts set_contract", &plain, &plain);
    table(random, "classes set_class", &plain, &|i| (i & 0xff).to_string());
    table(random, "next_hops set_next_hop", &plain, &plain);
    table(random, "neighbours set_link", &plain, &|i| format!("{i} {}", station(1 << 31 | i as u64)));
    table(random, "links send", &plain, &|i| format!("{} {}", i % PORTS, station(1 << 31 | (n + i) as u64)));
    let frame = |_| {
        let missed = random.percent(missing_percent).then(|| random.below(4));
        let mut to = mac(*random.pick(&destinations));
        let mut from = mac(*random.pick(&sources));
        let (mut source, mut destination) = (*random.pick(&tenants), *random.pick(&prefixes));
        destination |= word(random) & 0xff;
        match missed {
            Some(0) => from |= 1 << 31,
            Some(1) => to |= 1 << 31,
            Some(2) => source |= 1 << 31,
            Some(3) => destination |= 1 << 31 | 1 << 30,
            _ => (),
        }
        let segment =
            udp(*random.pick(&source_ports) as u16, *random.pick(&destination_ports) as u16, &[0; 18]);
        join(&[&ethernet(to, from, TYPE_IPV4), &Ipv4::new(source, destination, UDP).with(&segment)])
    };
    let frames = (0..count(SHORT)).map(frame).collect();
    Workload { commands, frames }
}

/// `n` tunnels that end here or pass, in turn, and `n` stations for which one starts; a third of the packets each. `bytes` is
/// the length of the TCP segment.
fn deep_tunnel(n: usize, bytes: usize) -> Workload {
    let mut random = Random::new(0x6465_6570_0000 + n as u64);
    let core = |random: &mut Random| 10 << 24 | word(random) >> 8;
    let vid = |random: &mut Random| random.range(1, 4094) as u16;
    let tunnels: Vec<(u32, u32)> =
        random.distinct(n, 24).iter().map(|vni| (core(&mut random), *vni as u32)).collect();
    let stations: Vec<(u16, u64)> =
        random.distinct(n, 30).iter().map(|station| (vid(&mut random), *station)).collect();
    let mut commands = String::new();
    let own = mac(1 << 31);
    for (i, (destination, vni)) in tunnels.iter().enumerate() {
        let (port, destination, peer) = (i / 2 % PORTS, dotted(*destination), mac(1 << 31 | i as u64));
        let _ = match i % 2 {
            0 => {
                writeln!(commands, "table_add tunnels end {destination} {vni} => {port} {}", vid(&mut random))
            }
            _ => writeln!(
                commands,
                "table_add tunnels pass {destination} {vni} => {port} {own:#014x} {peer:#014x} 10.255.255.254 {} {}",
                dotted(core(&mut random)),
                random.bits(24)
            ),
        };
    }
    for (i, (tag, station)) in stations.iter().enumerate() {
        let (peer, s_vid, c_vid) = (mac(1 << 31 | i as u64), vid(&mut random), vid(&mut random));
        let _ = writeln!(
            commands,
            "table_add stations begin {tag} {:#014x} => {} {own:#014x} {peer:#014x} {s_vid} {c_vid} 10.255.255.254 {} {}",
            mac(*station),
            i % PORTS,
            dotted(core(&mut random)),
            random.bits(24)
        );
    }
    let tag = |vid: u16, ether_type: u16| join(&[&vid.to_be_bytes(), &ether_type.to_be_bytes()]);
    let inner = |random: &mut Random, vid: u16, station: u64| {
        let sport = half(random);
        let segment = tcp(random, sport, 443, bytes);
        let packet = Ipv4::new(word(random), word(random), TCP).with(&segment);
        let from = mac(random.next() >> 34);
        padded(join(&[&ethernet(mac(station), from, TYPE_VLAN), &tag(vid, TYPE_IPV4), &packet]), 62)
    };
    let frame = |_| {
        let random = &mut random;
        let kind = random.below(3);
        if kind == 2 {
            let (vid, station) = *random.pick(&stations);
            return inner(random, vid, station);
        }
        let (destination, vni) = tunnels[2 * random.below(n / 2) + kind];
        let (inner_vid, station) = (vid(random), random.next() >> 34);
        let frame = inner(random, inner_vid, station);
        let tunnel = udp(0xc000 | half(random), PORT_VXLAN, &vxlan(vni, &frame));
        let packet = Ipv4::new(word(random), destination, UDP).with(&tunnel);
        let tags = join(&[&tag(vid(random), TYPE_VLAN), &tag(vid(random), TYPE_IPV4)]);
        join(&[&ethernet(own, mac(1 << 31 | 1), 0x88a8), &tags, &packet])
    };
    let frames = (0..count(SHORT + bytes)).map(frame).collect();
    Workload { commands, frames }
}
