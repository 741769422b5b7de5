//! Frames with correct lengths and checksums.

use super::flow::{Flow, Flows, VXLAN_PORT};
use super::options::{Protocol, Transport};
use crate::checksum::Sum;
use crate::random::mix;
use std::net::IpAddr;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const TCP_BYTES: usize = 20;
const VXLAN_BYTES: usize = 8;
/// Without the optional fields (RFC 2784).
const GRE_BYTES: usize = 4;

/// Minimum length of an Ethernet frame, without its checksum (FCS).
pub const FRAME_BYTES_MIN: usize = 60;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_GRE: u8 = 47;
const TTL: u8 = 64;

/// The common properties of the frames.
pub(super) struct Shape<'a> {
    pub protocol: Protocol,
    pub transport: Transport,
    pub vni: u32,
    /// Repeated to fill the frame; zeros if empty.
    pub payload: &'a [u8],
}

impl Shape<'_> {
    /// Returns the minimum length, without FCS.
    pub fn bytes_min(&self) -> usize {
        let transport = match self.transport {
            Transport::Tcp => TCP_BYTES,
            Transport::Udp => UDP_BYTES,
        };
        let plain = ETHERNET_BYTES + IPV4_BYTES + transport;
        let bytes = match self.protocol {
            Protocol::L2 | Protocol::Ipv4 => plain,
            Protocol::Ipv6 => ETHERNET_BYTES + IPV6_BYTES + transport,
            // The inner frame must be valid on an Ethernet.
            Protocol::Vxlan => {
                ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + VXLAN_BYTES + plain.max(FRAME_BYTES_MIN)
            }
            Protocol::Gre => ETHERNET_BYTES + IPV4_BYTES + GRE_BYTES + IPV4_BYTES + transport,
        };
        bytes.max(FRAME_BYTES_MIN)
    }

    /// Builds a frame of `bytes` bytes, at least [`Self::bytes_min`] and at most 65535, in `out`.
    pub fn build(&self, flows: &Flows, bytes: usize, out: &mut Vec<u8>) {
        out.clear();
        let outer = &flows.outer;
        match (self.protocol, &flows.inner) {
            (Protocol::Vxlan, Some(inner)) => {
                ethernet(out, outer, TYPE_IPV4);
                ip(out, outer, PROTOCOL_UDP, bytes - ETHERNET_BYTES - IPV4_BYTES);
                // RFC 7348, section 5: a source port from 49152 on, to distribute paths, and no checksum.
                put16(out, 49152 | (mix(inner_hash(inner)) & 0x3fff) as u16);
                put16(out, VXLAN_PORT);
                put16(out, (bytes - ETHERNET_BYTES - IPV4_BYTES) as u16);
                put16(out, 0);
                out.extend((0x0800_0000u32).to_be_bytes());
                out.extend((self.vni << 8).to_be_bytes());
                self.plain(out, inner, bytes - out.len());
            }
            (Protocol::Gre, Some(inner)) => {
                ethernet(out, outer, TYPE_IPV4);
                ip(out, outer, PROTOCOL_GRE, bytes - ETHERNET_BYTES - IPV4_BYTES);
                put16(out, 0);
                put16(out, TYPE_IPV4);
                self.packet(out, inner, bytes - out.len());
            }
            _ => self.plain(out, outer, bytes),
        }
    }

    /// An Ethernet frame of `bytes` bytes.
    fn plain(&self, out: &mut Vec<u8>, flow: &Flow, bytes: usize) {
        ethernet(out, flow, if flow.src_ip.is_ipv4() { TYPE_IPV4 } else { TYPE_IPV6 });
        self.packet(out, flow, bytes - ETHERNET_BYTES);
    }

    /// An IP packet of `bytes` bytes.
    fn packet(&self, out: &mut Vec<u8>, flow: &Flow, bytes: usize) {
        let header = if flow.src_ip.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES };
        let length = bytes - header;
        let protocol = match self.transport {
            Transport::Tcp => PROTOCOL_TCP,
            Transport::Udp => PROTOCOL_UDP,
        };
        ip(out, flow, protocol, length);
        let start = out.len();
        put16(out, flow.src_port);
        put16(out, flow.dst_port);
        let checksum_at = match self.transport {
            Transport::Tcp => {
                // Sequence number, acknowledgement, 5 words, ACK, window, checksum, urgent pointer.
                out.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
                start + 16
            }
            Transport::Udp => {
                put16(out, length as u16);
                put16(out, 0);
                start + 6
            }
        };
        self.fill(out, start + length);
        let mut sum = Sum::default();
        match (flow.src_ip, flow.dst_ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => sum.add(&src.octets()).add(&dst.octets()),
            (src, dst) => sum.add(&octets(src)).add(&octets(dst)),
        };
        sum.add(&u32::from(protocol).to_be_bytes()).add(&(length as u32).to_be_bytes());
        let checksum = match sum.add(&out[start..]).checksum() {
            // 0 would mean that there is no checksum (RFC 768); in TCP both values are equivalent.
            0 if self.transport == Transport::Udp => 0xffff,
            checksum => checksum,
        };
        out[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    fn fill(&self, out: &mut Vec<u8>, end: usize) {
        while !self.payload.is_empty() && out.len() < end {
            out.extend_from_slice(&self.payload[..self.payload.len().min(end - out.len())]);
        }
        out.resize(end, 0);
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn inner_hash(flow: &Flow) -> u64 {
    let ip = |ip| mix(u128::from_be_bytes(octets(ip)) as u64);
    let ports = u64::from(flow.src_port) << 16 | u64::from(flow.dst_port);
    mix(ip(flow.src_ip) ^ flow.src_mac) ^ mix(ip(flow.dst_ip) ^ ports) ^ flow.dst_mac
}

fn ethernet(out: &mut Vec<u8>, flow: &Flow, ether_type: u16) {
    out.extend_from_slice(&flow.dst_mac.to_be_bytes()[2..]);
    out.extend_from_slice(&flow.src_mac.to_be_bytes()[2..]);
    put16(out, ether_type);
}

/// An IP header before `length` bytes.
fn ip(out: &mut Vec<u8>, flow: &Flow, protocol: u8, length: usize) {
    match (flow.src_ip, flow.dst_ip) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let start = out.len();
            put16(out, 0x4500);
            put16(out, (IPV4_BYTES + length) as u16);
            out.extend([0, 0, 0, 0, TTL, protocol, 0, 0]);
            out.extend(src.octets());
            out.extend(dst.octets());
            let checksum = Sum::default().add(&out[start..]).checksum();
            out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        }
        (src, dst) => {
            out.extend((6u32 << 28).to_be_bytes());
            put16(out, length as u16);
            out.extend([protocol, TTL]);
            out.extend(octets(src));
            out.extend(octets(dst));
        }
    }
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend(value.to_be_bytes());
}
