//! Table entries of shipped programs for generated packets.

use super::flow::Flow;
use super::options::{Options, Protocol};
use std::io::{self, Write};

/// A shipped program that can forward generated packets.
pub(super) struct Target {
    pub name: &'static str,
    /// The protocols that it can forward.
    pub protocols: &'static [Protocol],
    /// Maximum number of entries of the table that gets one for each flow.
    pub entries_max: u64,
    /// Writes the entries that do not depend on the flows.
    pub begin: fn(&mut dyn Write, &Options) -> io::Result<()>,
    /// Writes the entries of flow number `i`.
    pub entry: fn(&mut dyn Write, u64, &Flow, &Options) -> io::Result<()>,
}

/// Number of next hops of routes.
const NEXT_HOPS: u64 = 64;

/// Protocols with an IPv4 header of varying addresses.
const ROUTED: &[Protocol] = &[Protocol::Ipv4, Protocol::Vxlan, Protocol::Gre];
const ALL: &[Protocol] = &[Protocol::Ipv4, Protocol::Ipv6, Protocol::L2, Protocol::Vxlan, Protocol::Gre];

pub(super) const TARGETS: [Target; 6] = [
    Target {
        name: "basic_l2",
        protocols: ALL,
        entries_max: 1 << 20,
        begin: |_, _| Ok(()),
        entry: |out, i, flow, options| {
            writeln!(out, "table_add forward set_dest {} => {}", Mac(flow.dst_mac), options.port_of(i))
        },
    },
    Target { name: "mac_mirror", protocols: ALL, entries_max: 1024, begin: |_, _| Ok(()), entry: mirror },
    Target {
        name: "simple_router",
        protocols: ROUTED,
        entries_max: 1 << 20,
        begin: |out, options| {
            for hop in 0..NEXT_HOPS {
                writeln!(out, "table_add forward set_dmac 192.0.2.{hop} => {}", Mac(hop_mac(hop)))?;
            }
            ports(out, options)
        },
        entry: |out, i, flow, options| {
            let hop = i % NEXT_HOPS;
            let port = options.port_of(hop);
            writeln!(out, "table_add ipv4_lpm set_nhop {}/32 => 192.0.2.{hop} {port}", flow.dst_ip)
        },
    },
    Target {
        name: "acl_router",
        protocols: ROUTED,
        entries_max: 1 << 20,
        begin: next_hops,
        entry: |out, i, flow, _| {
            let hop = i % NEXT_HOPS;
            writeln!(out, "table_add ipv4_lpm set_next_hop {}/32 => {hop}", flow.dst_ip)
        },
    },
    Target {
        name: "acl_router",
        protocols: &[Protocol::Ipv6],
        entries_max: 1 << 18,
        begin: next_hops,
        entry: |out, i, flow, _| {
            let hop = i % NEXT_HOPS;
            writeln!(out, "table_add ipv6_lpm set_next_hop {}/128 => {hop}", flow.dst_ip)
        },
    },
    // Bridged into tunnels to VTEPs.
    Target {
        name: "vxlan_gateway",
        protocols: ALL,
        entries_max: 1 << 20,
        begin: tunnels,
        entry: |out, i, flow, _| {
            writeln!(out, "table_add macs remote 1 {} => {}", Mac(flow.dst_mac), 1 + i % NEXT_HOPS)
        },
    },
];

/// Writes entries for port 0 in network 1, and the paths to the VTEPs.
fn tunnels(out: &mut dyn Write, options: &Options) -> io::Result<()> {
    let own = Mac(hop_mac(0));
    writeln!(out, "table_add attachments tenant 0 0 => 1 0 {own} {} 0 0", options.vni)?;
    for vtep in 1..=NEXT_HOPS {
        // Frames of any size.
        writeln!(out, "table_add vteps via {vtep} => {} 65535", options.port_of(vtep - 1))?;
        let hop = Mac(hop_mac(vtep));
        writeln!(
            out,
            "table_add encapsulations encapsulate_v4 {vtep} => {own} {hop} 0 192.0.2.254 192.0.2.{vtep} 64 49152 16383"
        )?;
    }
    Ok(())
}

fn mirror(out: &mut dyn Write, _: u64, flow: &Flow, _: &Options) -> io::Result<()> {
    let (src, dst) = (Mac(flow.src_mac), Mac(flow.dst_mac));
    writeln!(out, "table_add mirror set_mac {dst} => {dst} {src}")
}

fn next_hops(out: &mut dyn Write, options: &Options) -> io::Result<()> {
    for hop in 0..NEXT_HOPS {
        let port = options.port_of(hop);
        writeln!(out, "table_add next_hops send_to {hop} => {} {port}", Mac(hop_mac(hop)))?;
    }
    ports(out, options)
}

fn ports(out: &mut dyn Write, options: &Options) -> io::Result<()> {
    for port in 1..=options.ports {
        writeln!(
            out,
            "table_add send_frame rewrite_mac {port} => {}",
            Mac(0x0a00_0000_0000 + u64::from(port))
        )?;
    }
    Ok(())
}

fn hop_mac(hop: u64) -> u64 {
    0x0e00_0000_0000 + hop
}

/// A MAC address in the usual format.
pub(super) struct Mac(pub u64);

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [_, _, a, b, c, d, e, g] = self.0.to_be_bytes();
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
