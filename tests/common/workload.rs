//! Repeatable workloads: entries as runtime commands, and packets whose destinations are drawn evenly from them.

use super::mutate::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

/// Entries and matching packets.
pub struct Workload {
    /// Runtime commands.
    pub commands: String,
    /// Number of entries that they add.
    pub entries: usize,
    /// The packets.
    pub frames: Vec<Vec<u8>>,
}

/// Next hops and ports of [`l3`].
const NEXT_HOPS: u64 = 64;
const PORTS: u64 = 4;

/// A locally administered MAC address.
pub fn mac(i: u64) -> [u8; 6] {
    let b = (i as u32).to_be_bytes();
    [2, 0, b[0], b[1], b[2], b[3]]
}

/// `02:00:00:00:00:07`
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// `n` stations behind 4 ports, for basic_l2.
pub fn l2(n: usize, packets: usize) -> Workload {
    let mut random = Random(0x6c32_0000 + n as u64);
    let mut stations = Vec::new();
    let mut commands = String::new();
    // Multiplication by an odd number never produces the same address twice.
    for i in 0..n as u64 {
        let station = mac((i + 1).wrapping_mul(0x9e37_79b1) & 0x3fff_ffff);
        // Writing to a String cannot fail.
        let _ = writeln!(commands, "table_add forward set_dest {} => {}", mac_text(station), i % PORTS);
        stations.push(station);
    }
    let frames = (0..packets)
        .map(|_| {
            let (to, from) = (stations[random.below(n)], mac(random.next() & 0x3fff_ffff));
            let (source, destination) = (random.next() as u32, random.next() as u32);
            udp_frame(to, from, source.into(), destination.into(), 64, random.next() as u16, 60)
        })
        .collect();
    Workload { commands, entries: n, frames }
}

/// `n` routes (mostly /24) to 64 next hops behind 4 ports, for simple_router.
pub fn l3(n: usize, packets: usize) -> Workload {
    let mut random = Random(0x6c33_0000 + n as u64);
    let lengths: [u32; 10] = [24, 24, 24, 24, 24, 24, 22, 23, 16, 32];
    let mut routes = BTreeMap::new();
    while routes.len() < n {
        let length = lengths[random.below(lengths.len())];
        let address = (1 << 24) + (random.next() >> 32) as u32 % (222 << 24);
        routes.entry((address & (u32::MAX << (32 - length)), length)).or_insert(random.next() % NEXT_HOPS);
    }
    let next_hop = |hop: u64| Ipv4Addr::from(0x0a00_0001 + hop as u32);
    let mut commands = String::new();
    for ((prefix, length), hop) in &routes {
        let (prefix, hop_address) = (Ipv4Addr::from(*prefix), next_hop(*hop));
        let _ = writeln!(
            commands,
            "table_add ipv4_lpm set_nhop {prefix}/{length} => {hop_address} {}",
            hop % PORTS
        );
    }
    for hop in 0..NEXT_HOPS {
        let _ = writeln!(
            commands,
            "table_add forward set_dmac {} => {}",
            next_hop(hop),
            mac_text(mac(0x100 + hop))
        );
    }
    for port in 0..PORTS {
        let _ =
            writeln!(commands, "table_add send_frame rewrite_mac {port} => {}", mac_text(mac(0x900 + port)));
    }
    let keys: Vec<(u32, u32)> = routes.keys().copied().collect();
    let frames = (0..packets)
        .map(|_| {
            let (prefix, length) = keys[random.below(keys.len())];
            let host = (random.next() >> 32) as u32 & u32::MAX.checked_shr(length).unwrap_or(0);
            let source = random.next() as u32;
            udp_frame(mac(1), mac(2), source.into(), (prefix | host).into(), 64, random.next() as u16, 60)
        })
        .collect();
    Workload { commands, entries: n + (NEXT_HOPS + PORTS) as usize, frames }
}

/// Ethernet, IPv4, UDP to port 53, zeros up to `size` bytes (42 or more).
pub fn udp_frame(
    to: [u8; 6],
    from: [u8; 6],
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ttl: u8,
    source_port: u16,
    size: u16,
) -> Vec<u8> {
    let mut frame = vec![0; usize::from(size)];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&(size - 14).to_be_bytes());
    frame[22] = ttl;
    frame[23] = 17;
    frame[26..30].copy_from_slice(&source.octets());
    frame[30..34].copy_from_slice(&destination.octets());
    let sum = checksum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..36].copy_from_slice(&source_port.to_be_bytes());
    frame[36..38].copy_from_slice(&53u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(size - 34).to_be_bytes());
    frame
}

/// RFC 1071.
pub fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let sum: u32 = bytes.chunks(2).map(word).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
