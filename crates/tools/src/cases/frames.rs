//! Frames of workloads.

use crate::checksum::Sum;
use crate::random::Random;
use std::net::Ipv4Addr;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const TYPE_IPV4: u16 = 0x0800;
pub(super) const TYPE_VLAN: u16 = 0x8100;
pub(super) const TYPE_IPV6: u16 = 0x86dd;
pub(super) const PORT_VXLAN: u16 = 4789;
/// Shortest frame without its checksum.
pub(super) const SHORT: usize = 60;
/// A long frame.
pub(super) const LONG: usize = 1500;
const TTL: u8 = 64;

/// Returns the Internet checksum of these bytes (RFC 1071).
pub fn internet_checksum(bytes: &[u8]) -> u16 {
    Sum::default().add(bytes).checksum()
}

/// A locally administered MAC address, as a number.
pub(super) fn mac(i: u64) -> u64 {
    0x0200 << 32 | i
}

/// An IPv4 address as text.
pub(super) fn dotted(address: u32) -> Ipv4Addr {
    Ipv4Addr::from(address)
}

/// The mask of a prefix.
pub(super) fn mask(length: u32) -> u32 {
    u32::MAX.checked_shl(32 - length).unwrap_or(0)
}

/// Joins parts of a frame.
pub(super) fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Fills a frame with zeros to `bytes` bytes.
pub(super) fn padded(mut frame: Vec<u8>, bytes: usize) -> Vec<u8> {
    if frame.len() < bytes {
        frame.resize(bytes, 0);
    }
    frame
}

/// An Ethernet header.
pub(super) fn ethernet(to: u64, from: u64, ether_type: u16) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[..6].copy_from_slice(&to.to_be_bytes()[2..]);
    bytes[6..12].copy_from_slice(&from.to_be_bytes()[2..]);
    bytes[12..].copy_from_slice(&ether_type.to_be_bytes());
    bytes
}

/// An IPv4 header.
#[derive(Clone, Copy)]
pub(super) struct Ipv4 {
    pub source: u32,
    pub destination: u32,
    pub protocol: u8,
    pub ttl: u8,
}

impl Ipv4 {
    /// A header with a usual TTL.
    pub fn new(source: u32, destination: u32, protocol: u8) -> Ipv4 {
        Ipv4 { source, destination, protocol, ttl: TTL }
    }

    /// The header, with its checksum, and the payload.
    pub fn with(self, payload: &[u8]) -> Vec<u8> {
        self.with_options(&[], payload)
    }

    /// Header, options (of whole 32-bit words) and payload.
    pub fn with_options(self, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let header_bytes = 20 + options.len();
        let mut packet = Vec::with_capacity(header_bytes + payload.len());
        packet.extend([0x40 | (header_bytes / 4) as u8, 0]);
        packet.extend(((header_bytes + payload.len()) as u16).to_be_bytes());
        packet.extend([0, 0, 0, 0, self.ttl, self.protocol, 0, 0]);
        packet.extend(self.source.to_be_bytes());
        packet.extend(self.destination.to_be_bytes());
        packet.extend(options);
        let checksum = internet_checksum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

/// An IPv6 header and the payload.
pub(super) fn ipv6(source: u128, destination: u128, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    let start = [0x60, 0, 0, 0, length[0], length[1], next_header, TTL];
    join(&[&start, &source.to_be_bytes(), &destination.to_be_bytes(), payload])
}

/// A UDP header without checksum, and the payload.
pub(super) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    join(&[&source.to_be_bytes(), &destination.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload])
}

/// A TCP header with ACK and random numbers, and zeros to `bytes` bytes. The checksum is 0.
pub(super) fn tcp(random: &mut Random, source: u16, destination: u16, bytes: usize) -> Vec<u8> {
    let numbers = random.next().to_be_bytes();
    let rest = [0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0];
    padded(join(&[&source.to_be_bytes(), &destination.to_be_bytes(), &numbers, &rest]), bytes)
}

/// A VXLAN header (RFC 7348) and the frame.
pub(super) fn vxlan(vni: u32, frame: &[u8]) -> Vec<u8> {
    join(&[&[8, 0, 0, 0], &(vni << 8).to_be_bytes(), frame])
}

/// A random MAC address.
pub(super) fn any_mac(random: &mut Random) -> u64 {
    mac(random.next() >> 34)
}

/// A random 32-bit number.
pub(super) fn word(random: &mut Random) -> u32 {
    (random.next() >> 32) as u32
}

/// A random 16-bit number.
pub(super) fn half(random: &mut Random) -> u16 {
    (random.next() >> 48) as u16
}

/// Ethernet, IPv4 and UDP to port 53, with zeros to `bytes` bytes, at least 42.
pub(super) fn udp_frame(
    to: u64,
    from: u64,
    source: u32,
    destination: u32,
    source_port: u16,
    bytes: usize,
) -> Vec<u8> {
    let segment = udp(source_port, 53, &vec![0; bytes - 42]);
    join(&[&ethernet(to, from, TYPE_IPV4), &Ipv4::new(source, destination, UDP).with(&segment)])
}
