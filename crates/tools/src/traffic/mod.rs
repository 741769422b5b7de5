//! Captures of common protocols, and the entries with which shipped programs forward them.
//!
//! The seed determines everything. Packet `i` of a capture belongs to flow `i`, regardless of its size, and no two flows
//! are equal. Nothing is stored: a capture may be larger than memory.

mod entries;
mod flow;
mod frame;
mod options;

pub use flow::{Flow, FlowMaker, Flows, VXLAN_PORT};
pub use frame::FRAME_BYTES_MIN;
pub use options::{ENTRIES_MAX, FCS_BYTES, Options, PERF_SIZES, PORTS_MAX, Protocol, SIZE_MAX, Transport};

use crate::Error;
use entries::Mac;
use frame::Shape;
use p4jet_ports::CaptureWriter;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A generated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its path.
    pub path: PathBuf,
    /// Its contents.
    pub content: Content,
}

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Packets.
    Capture {
        /// Their size, FCS included.
        size: u32,
        /// The requested size, if the headers did not fit.
        asked: Option<u32>,
        /// Number of packets.
        packets: u64,
    },
    /// Runtime commands for a program.
    Entries {
        /// The program.
        program: &'static str,
    },
    /// The flows as text.
    Trace,
}

/// Generates the captures, the entries, and the list of flows.
pub fn generate(options: &Options) -> Result<Vec<Made>, Error> {
    options.check()?;
    let targets = targets(options)?;
    std::fs::create_dir_all(&options.folder).map_err(|e| Error::unwritable(&options.folder, &e))?;
    let name = options.name();
    let path = |suffix: String| options.folder.join(format!("{name}.{suffix}"));
    let flows = FlowMaker::new(options);
    let shape = Shape {
        protocol: options.protocol,
        transport: options.transport,
        vni: options.vni,
        payload: &options.payload,
    };
    let mut made = Vec::new();
    let size_min = shape.bytes_min() as u32 + FCS_BYTES;
    let mut sizes_made = Vec::new();
    for &asked in &options.sizes {
        let size = asked.max(size_min);
        if sizes_made.contains(&size) {
            continue;
        }
        sizes_made.push(size);
        let path = path(format!("{size}bytes.pcap"));
        let mut capture = CaptureWriter::create(&path)?;
        let mut frame = Vec::new();
        for i in 0..options.entries {
            shape.build(&flows.flows(i), (size - FCS_BYTES) as usize, &mut frame);
            capture.write(Duration::from_micros(i), &frame)?;
        }
        capture.finish()?;
        let asked = Some(asked).filter(|asked| *asked != size);
        made.push(Made { path, content: Content::Capture { size, asked, packets: options.entries } });
    }
    for target in targets {
        let path = path(format!("{}.cmd", target.name));
        write_text(&path, |out| {
            writeln!(out, "# For {}: the flows of {name}.", target.name)?;
            (target.begin)(out, options)?;
            (0..options.entries).try_for_each(|i| (target.entry)(out, i, &flows.flows(i).outer, options))
        })?;
        made.push(Made { path, content: Content::Entries { program: target.name } });
    }
    let path = path("flows.txt".to_string());
    write_text(&path, |out| {
        writeln!(out, "# {}", header(options))?;
        (0..options.entries).try_for_each(|i| {
            let Flows { outer, inner } = flows.flows(i);
            // The ports of a tunnel's headers do not matter.
            write_flow(out, &outer, inner.is_none())?;
            if let Some(inner) = inner {
                out.write_all(b" ")?;
                write_flow(out, &inner, true)?;
            }
            writeln!(out)
        })
    })?;
    made.push(Made { path, content: Content::Trace });
    Ok(made)
}

/// Returns the shipped programs that get entries.
fn targets(options: &Options) -> Result<Vec<&'static entries::Target>, Error> {
    let can = |target: &&entries::Target| target.protocols.contains(&options.protocol);
    let Some(names) = &options.programs else {
        return Ok(entries::TARGETS
            .iter()
            .filter(can)
            .filter(|t| options.entries <= t.entries_max)
            .collect());
    };
    let mut targets = Vec::new();
    for name in names {
        let Some(target) = entries::TARGETS.iter().filter(can).find(|t| t.name == *name) else {
            let known: Vec<_> = entries::TARGETS.iter().filter(can).map(|t| t.name).collect();
            return Err(Error::Usage(format!(
                "no entries of `{name}` for {}: there are some of {}",
                options.protocol.name(),
                known.join(", ")
            )));
        };
        if options.entries > target.entries_max {
            return Err(Error::Usage(format!(
                "{} entries are too many for {name}: its table has room for {}",
                options.entries, target.entries_max
            )));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn header(options: &Options) -> &'static str {
    match options.protocol {
        Protocol::L2 | Protocol::Ipv4 | Protocol::Ipv6 => "src_mac dst_mac src_ip dst_ip src_port dst_port",
        Protocol::Vxlan | Protocol::Gre => {
            "src_mac dst_mac src_ip dst_ip inner_src_mac inner_dst_mac inner_src_ip inner_dst_ip \
             inner_src_port inner_dst_port"
        }
    }
}

fn write_flow(out: &mut dyn Write, flow: &Flow, ports: bool) -> std::io::Result<()> {
    write!(out, "{} {} {} {}", Mac(flow.src_mac), Mac(flow.dst_mac), flow.src_ip, flow.dst_ip)?;
    if ports {
        write!(out, " {} {}", flow.src_port, flow.dst_port)?;
    }
    Ok(())
}

fn write_text(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Error> {
    let unwritable = |e: std::io::Error| Error::unwritable(path, &e);
    let mut out = BufWriter::with_capacity(1 << 18, p4jet_files::create(path).map_err(unwritable)?);
    write(&mut out).and_then(|()| out.flush()).map_err(unwritable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::IpAddr;

    fn options(protocol: Protocol, transport: Transport) -> Options {
        Options {
            protocol,
            transport,
            entries: 100,
            sizes: PERF_SIZES.to_vec(),
            random_ip: false,
            random_mac: false,
            random_port: false,
            seed: 1,
            vni: 100,
            payload: b"payload".to_vec(),
            ports: 4,
            programs: None,
            folder: PathBuf::new(),
            name: None,
        }
    }

    const PROTOCOLS: [Protocol; 5] =
        [Protocol::L2, Protocol::Ipv4, Protocol::Ipv6, Protocol::Vxlan, Protocol::Gre];

    fn word(bytes: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([bytes[at], bytes[at + 1]])
    }

    /// Returns the one's complement sum, word by word: 0xffff if the checksum in the bytes is correct.
    fn sum(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Checks lengths and checksums of a frame, and of inner frames; returns the names of its headers.
    fn check_ethernet(frame: &[u8]) -> String {
        assert_eq!((frame[0] & 1, frame[6] & 1), (0, 0), "unicast");
        "eth ".to_string() + &check_ip(&frame[14..], word(frame, 12))
    }

    fn check_ip(packet: &[u8], ether_type: u16) -> String {
        let (name, header, protocol, mut pseudo) = match ether_type {
            0x0800 => {
                assert_eq!(packet[0], 0x45);
                assert_eq!(usize::from(word(packet, 2)), packet.len());
                assert_eq!(sum(&packet[..20]), 0xffff, "IPv4 checksum");
                ("ipv4", 20, packet[9], packet[12..20].to_vec())
            }
            0x86dd => {
                assert_eq!(packet[0], 0x60);
                assert_eq!(usize::from(word(packet, 4)), packet.len() - 40);
                ("ipv6", 40, packet[6], packet[8..40].to_vec())
            }
            other => panic!("EtherType {other:04x}"),
        };
        let data = &packet[header..];
        pseudo.extend([0, protocol]);
        pseudo.extend((data.len() as u16).to_be_bytes());
        pseudo.extend(data);
        let rest = match protocol {
            17 if word(data, 2) == VXLAN_PORT => {
                assert_eq!(usize::from(word(data, 4)), data.len());
                assert_eq!(data[8..16], [8, 0, 0, 0, 0, 0, 100, 0]);
                assert!(word(data, 0) >= 49152 && word(data, 6) == 0);
                assert!(data[16..].len() >= 60, "an Ethernet carries what comes out");
                "udp vxlan ".to_string() + &check_ethernet(&data[16..])
            }
            17 => {
                assert_eq!(usize::from(word(data, 4)), data.len());
                assert_ne!(word(data, 6), 0);
                assert_eq!(sum(&pseudo), 0xffff, "UDP checksum");
                "udp".to_string()
            }
            6 => {
                assert_eq!(sum(&pseudo), 0xffff, "TCP checksum");
                "tcp".to_string()
            }
            47 => {
                assert_eq!(data[..4], [0, 0, 8, 0]);
                "gre ".to_string() + &check_ip(&data[4..], 0x0800)
            }
            other => panic!("protocol {other}"),
        };
        format!("{name} {rest}")
    }

    #[test]
    fn frames_are_correct() {
        let expect = [
            "eth ipv4 T",
            "eth ipv4 T",
            "eth ipv6 T",
            "eth ipv4 udp vxlan eth ipv4 T",
            "eth ipv4 gre ipv4 T",
        ];
        for (protocol, expect) in PROTOCOLS.into_iter().zip(expect) {
            for transport in [Transport::Tcp, Transport::Udp] {
                let mut options = options(protocol, transport);
                (options.random_ip, options.random_port) = (true, true);
                let shape = Shape { protocol, transport, vni: 100, payload: &options.payload };
                let flows = FlowMaker::new(&options);
                let mut frame = Vec::new();
                // Every length near the minimum, and the maximum.
                for bytes in (shape.bytes_min()..shape.bytes_min() + 70).chain([1514, 65_531]) {
                    for i in 0..20 {
                        shape.build(&flows.flows(i), bytes, &mut frame);
                        assert_eq!(frame.len(), bytes);
                        assert_eq!(check_ethernet(&frame), expect.replace('T', transport.name()));
                    }
                }
            }
        }
    }

    /// With FCS; the minimum of VXLAN is that of BB-Gen.
    #[test]
    fn sizes_are_raised_to_fit_the_headers() {
        let min = |protocol, transport| {
            Shape { protocol, transport, vni: 0, payload: &[] }.bytes_min() as u32 + FCS_BYTES
        };
        assert_eq!(PROTOCOLS.map(|p| min(p, Transport::Tcp)), [64, 64, 78, 114, 82]);
        assert_eq!(PROTOCOLS.map(|p| min(p, Transport::Udp)), [64, 64, 66, 114, 70]);
    }

    #[test]
    fn no_two_flows_are_equal() {
        for protocol in PROTOCOLS {
            for random in [false, true] {
                let mut options = options(protocol, Transport::Udp);
                (options.random_ip, options.random_mac, options.random_port) = (random, random, random);
                let flows = FlowMaker::new(&options);
                let mut found: [HashSet<String>; 4] = Default::default();
                let count = 20_000;
                for i in 0..count {
                    let flow = flows.flows(i).inner.unwrap_or(flows.flows(i).outer);
                    let parts = [
                        flow.src_mac.to_string(),
                        flow.dst_mac.to_string(),
                        flow.src_ip.to_string(),
                        flow.dst_ip.to_string(),
                    ];
                    for (found, part) in found.iter_mut().zip(parts) {
                        found.insert(part);
                    }
                    assert_eq!((flow.src_mac >> 40 & 3, flow.dst_mac >> 40 & 3), (2, 2), "local, unicast");
                }
                let addresses = if protocol == Protocol::L2 { 1 } else { count };
                assert_eq!(
                    found.map(|f| f.len() as u64),
                    [count, count, addresses, addresses],
                    "{protocol:?} {random}"
                );
            }
        }
    }

    #[test]
    fn random_addresses_are_distinct() {
        let mut options = options(Protocol::Ipv4, Transport::Udp);
        options.random_ip = true;
        let flows = FlowMaker::new(&options);
        let mut found: [HashSet<IpAddr>; 2] = Default::default();
        for i in 0..ENTRIES_MAX {
            let flow = flows.flows(i).outer;
            assert!(found[0].insert(flow.src_ip) && found[1].insert(flow.dst_ip), "flow {i}");
        }
    }

    #[test]
    fn seeds_determine_the_output() {
        let mut options = options(Protocol::Vxlan, Transport::Tcp);
        options.random_ip = true;
        let flows = |options: &Options| (0..50).map(|i| FlowMaker::new(options).flows(i)).collect::<Vec<_>>();
        let first = flows(&options);
        assert_eq!(first, flows(&options));
        options.seed = 2;
        assert_ne!(first, flows(&options));
        assert_eq!(first[0].outer.src_mac, flows(&options)[0].outer.src_mac, "not random");
    }

    #[test]
    fn wrong_options_are_refused() {
        let refused = |change: fn(&mut Options)| {
            let mut options = options(Protocol::Ipv6, Transport::Tcp);
            change(&mut options);
            match generate(&options) {
                Err(Error::Usage(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            refused(|o| o.entries = 1_000_001),
            "the number of entries is 1000001: expected 1 to 1000000"
        );
        assert_eq!(refused(|o| o.sizes = vec![64, 63]), "a size is 63: expected 64 to 65535");
        assert_eq!(refused(|o| o.vni = 1 << 24), "the VNI is 16777216: expected 0 to 16777215");
        assert_eq!(
            refused(|o| o.programs = Some(vec!["simple_router".to_string()])),
            "no entries of `simple_router` for ipv6: there are some of basic_l2, mac_mirror, acl_router, vxlan_gateway"
        );
        assert_eq!(
            refused(|o| (o.entries, o.programs) = (2000, Some(vec!["mac_mirror".to_string()]))),
            "2000 entries are too many for mac_mirror: its table has room for 1024"
        );
    }
}
