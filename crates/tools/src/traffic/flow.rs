//! The addresses and ports of packets.

use super::options::{Options, Protocol};
use crate::random::{Permutation, mix};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Source and destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// MAC address, 48 bits.
    pub src_mac: u64,
    /// MAC address, 48 bits.
    pub dst_mac: u64,
    /// Address; both are of one family.
    pub src_ip: IpAddr,
    /// Address.
    pub dst_ip: IpAddr,
    /// TCP or UDP port.
    pub src_port: u16,
    /// TCP or UDP port.
    pub dst_port: u16,
}

/// A packet's flow and, for a tunnel's packet, the inner one; the outer one then has no ports of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flows {
    /// The flow of the frame.
    pub outer: Flow,
    /// The flow of the inner frame or packet.
    pub inner: Option<Flow>,
}

/// UDP destination port of VXLAN (RFC 7348). No other packets have it.
pub const VXLAN_PORT: u16 = 4789;

/// Generates the flows: each is a function of its number, so nothing is stored.
pub struct FlowMaker {
    protocol: Protocol,
    /// The layers of the frame and of the inner one.
    layers: [Layer; 2],
}

/// Maps numbers to addresses in one of two layers.
struct Layer {
    random_ip: bool,
    random_mac: bool,
    random_port: bool,
    /// For src and dst, in this order, like the others.
    ipv4: [Permutation; 2],
    ipv6: [Permutation; 2],
    mac: [Permutation; 2],
    port_seeds: [u64; 2],
    /// Offset that separates sequential addresses of the layers.
    base: u64,
}

impl Layer {
    fn new(options: &Options, layer: u64) -> Layer {
        let seed = |what: u64, end: u64| mix(mix(options.seed) ^ (layer << 8 | what << 4 | end));
        Layer {
            random_ip: options.random_ip,
            random_mac: options.random_mac,
            random_port: options.random_port,
            ipv4: [0, 1].map(|end| Permutation::new(seed(0, end), 32)),
            ipv6: [0, 1].map(|end| Permutation::new(seed(1, end), 64)),
            mac: [0, 1].map(|end| Permutation::new(seed(2, end), 46)),
            port_seeds: [0, 1].map(|end| seed(3, end)),
            base: layer << 20,
        }
    }

    /// Returns distinct addresses: unicast, locally administered.
    fn mac(&self, i: u64, end: usize) -> u64 {
        if !self.random_mac {
            return [0x0200_0000_0000, 0x0600_0000_0000][end] + self.base + i;
        }
        let x = self.mac[end].apply(i);
        // Leaves out the two bits for multicast and locally administered.
        (x >> 40) << 42 | 0x0200_0000_0000 | x & 0xff_ffff_ffff
    }

    /// Returns distinct addresses. Random ones: any unicast address that is not reserved (RFC 6890); otherwise from
    /// 10.0.0.0/8 and 100.64.0.0/10.
    fn ipv4(&self, i: u64, end: usize) -> Ipv4Addr {
        if !self.random_ip {
            return Ipv4Addr::from([0x0a00_0001, 0x6440_0001][end] + (self.base + i) as u32);
        }
        // Repeated application of a permutation yields distinct allowed numbers if it starts at an allowed one: none of
        // 0.0.0.0/8.
        let mut x = self.ipv4[end].apply(i + (1 << 24));
        while !matches!(x >> 24, 1..=9 | 11..=126 | 128..=168 | 170..=171 | 173..=191 | 193..=197 | 199..=223)
        {
            x = self.ipv4[end].apply(x);
        }
        Ipv4Addr::from(x as u32)
    }

    /// Returns distinct addresses in 2001:db8::/32 (RFC 3849).
    fn ipv6(&self, i: u64, end: usize) -> Ipv6Addr {
        let net = 0x2001_0db8u128 << 96;
        if !self.random_ip {
            return Ipv6Addr::from(net | (end as u128 + 1) << 80 | u128::from(self.base + i + 1));
        }
        let low = self.ipv6[end].apply(i);
        // The other bits do not make addresses distinct, but spread them.
        Ipv6Addr::from(net | u128::from(mix(low) >> 32) << 64 | u128::from(low))
    }

    /// Returns ports from 1024 on, not distinct.
    fn port(&self, i: u64, end: usize) -> u16 {
        let x = if self.random_port { mix(self.port_seeds[end] ^ mix(i)) >> 8 } else { i };
        match 1024 + (x % (65536 - 1024)) as u16 {
            VXLAN_PORT => VXLAN_PORT + 1,
            port => port,
        }
    }

    fn flow(&self, i: u64, ipv6: bool) -> Flow {
        let ip = |end| match ipv6 {
            true => IpAddr::V6(self.ipv6(i, end)),
            false => IpAddr::V4(self.ipv4(i, end)),
        };
        Flow {
            src_mac: self.mac(i, 0),
            dst_mac: self.mac(i, 1),
            src_ip: ip(0),
            dst_ip: ip(1),
            src_port: self.port(i, 0),
            dst_port: self.port(i, 1),
        }
    }
}

impl FlowMaker {
    /// Creates a generator for these options.
    pub fn new(options: &Options) -> FlowMaker {
        FlowMaker { protocol: options.protocol, layers: [0, 1].map(|layer| Layer::new(options, layer)) }
    }

    /// Returns flow `i`, below [`super::ENTRIES_MAX`]. No two are equal.
    pub fn flows(&self, i: u64) -> Flows {
        let outer = self.layers[0].flow(i, self.protocol == Protocol::Ipv6);
        match self.protocol {
            Protocol::Ipv4 | Protocol::Ipv6 => Flows { outer, inner: None },
            // Only the stations differ, which is what a bridge sees.
            Protocol::L2 => {
                let one = self.layers[0].flow(0, false);
                let outer = Flow { src_mac: outer.src_mac, dst_mac: outer.dst_mac, ..one };
                Flows { outer, inner: None }
            }
            Protocol::Vxlan | Protocol::Gre => Flows { outer, inner: Some(self.layers[1].flow(i, false)) },
        }
    }
}
