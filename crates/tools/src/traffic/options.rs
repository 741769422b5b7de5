//! The options of the generator.

use crate::Error;
use std::path::PathBuf;

/// The protocol of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Ethernet; the stations differ, but the IPv4 packets inside do not.
    L2,
    /// IPv4 in Ethernet.
    Ipv4,
    /// IPv6 in Ethernet.
    Ipv6,
    /// Ethernet in VXLAN in UDP in IPv4 (RFC 7348).
    Vxlan,
    /// IPv4 in GRE in IPv4 (RFC 2784).
    Gre,
}

/// The payload of the (inner) IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::L2 => "l2",
            Protocol::Ipv4 => "ipv4",
            Protocol::Ipv6 => "ipv6",
            Protocol::Vxlan => "vxlan",
            Protocol::Gre => "gre",
        }
    }
}

impl Transport {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }
}

/// Maximum number of flows.
pub const ENTRIES_MAX: u64 = 1_000_000;

/// Sizes that benchmarks of switches use (RFC 2544, section 9.1), with frame check sequence.
pub const PERF_SIZES: [u32; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Bytes of the frame check sequence: part of a size, as in RFC 2544, but never in a capture.
pub const FCS_BYTES: u32 = 4;

/// Largest size: no length field of a header overflows.
pub const SIZE_MAX: u32 = 65_535;

/// Maximum number of ports to which entries send.
pub const PORTS_MAX: u32 = 255;

/// The options of the generator.
#[derive(Clone, Debug)]
pub struct Options {
    /// The protocol of the packets.
    pub protocol: Protocol,
    /// Their transport protocol.
    pub transport: Transport,
    /// Number of flows: packets in a capture.
    pub entries: u64,
    /// Sizes, each with its own capture, including [`FCS_BYTES`].
    pub sizes: Vec<u32>,
    /// Random IP addresses instead of sequential ones.
    pub random_ip: bool,
    /// Random MAC addresses.
    pub random_mac: bool,
    /// Random ports.
    pub random_port: bool,
    /// The seed of random values.
    pub seed: u64,
    /// The VNI of VXLAN.
    pub vni: u32,
    /// Repeated in every packet; zeros if empty.
    pub payload: Vec<u8>,
    /// Entries send to the ports from 1 to this.
    pub ports: u32,
    /// Programs that get entries; `None` for all that can forward the packets.
    pub programs: Option<Vec<String>>,
    /// The folder of the files; created if it does not exist.
    pub folder: PathBuf,
    /// The prefix of their names; `None` for a prefix that describes the contents.
    pub name: Option<String>,
}

impl Options {
    /// Returns the port to which entries for flow (or next hop) `i` send.
    pub(super) fn port_of(&self, i: u64) -> u64 {
        1 + i % u64::from(self.ports)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let within = |what: &str, value: u64, min: u64, max: u64| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(Error::Usage(format!("{what} is {value}: expected {min} to {max}"))),
        };
        within("the number of entries", self.entries, 1, ENTRIES_MAX)?;
        within("the number of ports", self.ports.into(), 1, PORTS_MAX.into())?;
        within("the VNI", self.vni.into(), 0, (1 << 24) - 1)?;
        for &size in &self.sizes {
            within("a size", size.into(), 64, SIZE_MAX.into())?;
        }
        if self.sizes.is_empty() {
            return Err(Error::Usage("no size: expected at least one".to_string()));
        }
        Ok(())
    }

    pub(super) fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| {
            let mut name = format!("{}_{}_{}", self.protocol.name(), self.transport.name(), self.entries);
            for (random, what) in
                [(self.random_ip, "ip"), (self.random_mac, "mac"), (self.random_port, "port")]
            {
                if random {
                    name += "_r";
                    name += what;
                }
            }
            name
        })
    }
}
