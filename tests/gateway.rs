//! Sends every kind of packet to vxlan_gateway, truncated at every byte: each one is forwarded, or counted with exactly
//! one drop reason, as programs/vxlan_gateway/README.md documents, on both engines.

use crate::common::{TempDir, program, run, stf_packets, to_hex};
use std::fmt::Write;
use std::fs;

const REASONS: u32 = 29;
const TOO_SHORT: u32 = 1;
const IP_LENGTH: u32 = 7;
const TUNNEL_LENGTH: u32 = 16;
const TUNNEL_TOO_SHORT: u32 = 20;

/// A packet of the program's own tests, and the results for its truncations: the drop reason for those with at least this
/// many bytes; `None` means forwarding.
struct Kind {
    test: &'static str,
    packet: usize,
    port: u32,
    ends: &'static [(usize, Option<u32>)],
}

/// Truncated packets arrive at `port`; the whole packet leaves by the port after it.
const KINDS: &[(Kind, u32)] = &[
    // Ethernet, IPv4, the start of TCP.
    (Kind { test: "inbound", packet: 0, port: 0, ends: &[(1, Some(TOO_SHORT)), (38, Some(IP_LENGTH))] }, 1),
    // With a tag; a tenant's own packet.
    (Kind { test: "bridge", packet: 26, port: 3, ends: &[(1, Some(TOO_SHORT)), (42, Some(IP_LENGTH))] }, 0),
    // Ethernet, IPv4, UDP, VXLAN, Ethernet, IPv4, TCP. The ports mark it as a tunnel.
    (
        Kind {
            test: "outbound",
            packet: 0,
            port: 1,
            ends: &[(1, Some(TOO_SHORT)), (38, Some(TUNNEL_TOO_SHORT)), (88, Some(TUNNEL_LENGTH))],
        },
        0,
    ),
    // IPv6 under IPv4, and under IPv6.
    (
        Kind {
            test: "outbound",
            packet: 2,
            port: 1,
            ends: &[(1, Some(TOO_SHORT)), (58, Some(TUNNEL_TOO_SHORT)), (108, Some(TUNNEL_LENGTH))],
        },
        0,
    ),
    (
        Kind {
            test: "outbound",
            packet: 3,
            port: 1,
            ends: &[(1, Some(TOO_SHORT)), (38, Some(TUNNEL_TOO_SHORT)), (108, Some(TUNNEL_LENGTH))],
        },
        0,
    ),
    (
        Kind {
            test: "outbound",
            packet: 4,
            port: 1,
            ends: &[(1, Some(TOO_SHORT)), (58, Some(TUNNEL_TOO_SHORT)), (128, Some(TUNNEL_LENGTH))],
        },
        0,
    ),
    // A bridge needs only Ethernet.
    (Kind { test: "bridge", packet: 0, port: 2, ends: &[(1, Some(TOO_SHORT)), (14, None)] }, 3),
    // ARP, answered.
    (Kind { test: "bridge", packet: 20, port: 2, ends: &[(1, Some(TOO_SHORT))] }, 2),
];

#[test]
fn every_cut_of_every_header_is_forwarded_or_counted_once() {
    let dir = TempDir::new("cuts");
    let path = program("vxlan_gateway");
    let folder = path.parent().expect("a folder");
    let entries = fs::read_to_string(folder.join("entries.cmd")).expect("readable");
    for (number, (kind, leaves)) in KINDS.iter().enumerate() {
        let script = fs::read_to_string(folder.join(format!("tests/{}.stf", kind.test))).expect("readable");
        let (port, frame) = stf_packets(&script).swap_remove(kind.packet);
        assert_eq!(port, kind.port, "packet {} of {}", kind.packet, kind.test);
        let mut text = entries.clone();
        let mut counts = [0; REASONS as usize];
        for length in 1..=frame.len() {
            writeln!(text, "packet {port} {}", to_hex(&frame[..length])).unwrap();
            let end = kind.ends.iter().rev().find(|(from, _)| *from <= length).and_then(|(_, end)| *end);
            match end {
                Some(reason) if length < frame.len() => counts[reason as usize] += 1,
                _ => writeln!(text, "expect {leaves}").unwrap(),
            }
        }
        for (reason, count) in counts.iter().enumerate() {
            writeln!(text, "check_counter ingress.drops({reason}) packets == {count}").unwrap();
            writeln!(text, "check_counter egress_drops({reason}) packets == 0").unwrap();
        }
        text += "no_packet\n";
        let file = dir.write(&format!("{number}-{}.stf", kind.test), text);
        let output = run(&["test", path.to_str().expect("UTF-8"), &file, "--engine", "both"]);
        assert_eq!(output.status, 0, "{}\n{}", output.stdout, output.stderr);
    }
}
