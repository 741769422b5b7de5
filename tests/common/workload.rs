//! Repeatable workloads: entries as runtime commands, and packets whose destinations are drawn evenly from them.

use p4jet_tools::cases;
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

impl From<cases::Workload> for Workload {
    /// Of commands that add an entry each.
    fn from(cases::Workload { commands, frames }: cases::Workload) -> Workload {
        Workload { entries: commands.lines().count(), commands, frames }
    }
}

/// A locally administered MAC address.
pub fn mac(i: u64) -> [u8; 6] {
    let b = (i as u32).to_be_bytes();
    [2, 0, b[0], b[1], b[2], b[3]]
}

/// `n` stations behind 4 ports, for basic_l2.
pub fn l2(n: usize, packets: usize) -> Workload {
    cases::l2(n, packets).into()
}

/// `n` routes (mostly /24) to 64 next hops behind 4 ports, for simple_router.
pub fn l3(n: usize, packets: usize) -> Workload {
    cases::l3(n, packets).into()
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
    cases::internet_checksum(bytes)
}
