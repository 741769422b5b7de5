//! What the operator says: our addresses, the networks, and how peers are reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One of our own ends of tunnels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number in `endpoints_v4` or `endpoints_v6`.
    pub number: u16,
    /// Its address.
    pub address: IpAddr,
}

/// A data network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Network instance, as PFCP names it.
    pub name: Vec<u8>,
    /// Its number in `attachments`.
    pub number: u16,
    /// Its router in `next_hops`.
    pub next_hop: u16,
}

/// How tunnels leave: the link towards the gNBs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Underlay {
    /// Port of the switch.
    pub port: u16,
    /// VLAN; 0 for none.
    pub vid: u16,
    /// Our MAC address.
    pub mac: u64,
    /// The router's MAC address, or that of the only peer.
    pub next_hop: u64,
    /// Of the link.
    pub mtu: u16,
    /// Clone session whose copies leave by this port.
    pub copies: u16,
    /// UDP checksums over IPv4; over IPv6 they are always sent.
    pub sums: bool,
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Our address in PFCP.
    pub address: IpAddr,
    /// When we began, in seconds since 1900 (clause 8.2.65): another value tells the SMF that sessions are lost.
    pub recovery: u32,
    /// Our ends of tunnels; the first of each family is chosen where the SMF lets us.
    pub endpoints: Vec<Endpoint>,
    /// The first is taken where the SMF names none.
    pub networks: Vec<Network>,
    /// The link to the peers.
    pub underlay: Underlay,
    /// Sessions, at most.
    pub sessions_max: u32,
}

impl Config {
    /// The first own address of IPv4.
    pub fn v4(&self) -> Option<(u16, Ipv4Addr)> {
        self.endpoints.iter().find_map(|e| match e.address {
            IpAddr::V4(a) => Some((e.number, a)),
            IpAddr::V6(_) => None,
        })
    }

    /// The first own address of IPv6.
    pub fn v6(&self) -> Option<(u16, Ipv6Addr)> {
        self.endpoints.iter().find_map(|e| match e.address {
            IpAddr::V6(a) => Some((e.number, a)),
            IpAddr::V4(_) => None,
        })
    }

    /// The number of one of our addresses.
    pub fn endpoint(&self, address: IpAddr) -> Option<u16> {
        self.endpoints.iter().find(|e| e.address == address).map(|e| e.number)
    }

    /// The network of an instance.
    pub fn network(&self, name: Option<&[u8]>) -> Option<&Network> {
        match name {
            None => self.networks.first(),
            Some(name) => self.networks.iter().find(|n| n.name == name || is_label(name, &n.name)),
        }
    }
}

/// Some SMFs write a network instance as a label of DNS, with its length before it.
fn is_label(written: &[u8], name: &[u8]) -> bool {
    matches!(written, [length, rest @ ..] if usize::from(*length) == rest.len() && rest == name)
}
