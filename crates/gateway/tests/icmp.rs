//! The answers to packets that the switch hands over. Plain functions of this file build the frames and their checksums,
//! so that the library that builds the answers does not judge them. Four answers are given byte by byte.
//!
//! Mutated frames get an answer with correct checksums, or none, and never cause a panic: `CASE=1234` runs a single one.
//! Blind spot: whether there should be an answer.

use crate::mutate::Random;
use p4jet_gateway::icmp::{Answer, OwnAddresses, Silence, answer};
use p4jet_gateway::{Actual, Config, plan};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Port 0: clients, no IPv6 address there. Port 1: the underlay. Ports 2, and 3 in VLAN 10: the network with VNI 100.
/// There is also a tenant without any address.
fn own() -> OwnAddresses {
    let text = include_str!("../../../programs/vxlan_gateway/gateway.toml").to_string()
        + r#"
[[tenant]]
name = "mute"
vrf = 7

[[external]]
name = "silent"
port = 9
mac = "02:00:00:00:00:01"
tenant = "mute"

[[network]]
name = "six"
vni = 0x010203
mac = "02:00:00:00:00:06"
addresses = ["2001:db8:6::1", "2001:db8:6::2"]
ports = [{ port = 6, vlan = 60 }]
"#;
    let config = Config::parse(&text).unwrap();
    OwnAddresses::new(&config, &plan(&config, &|_| true, &Actual::default()).unwrap())
}

const TTL: u16 = 9;
const MTU: u16 = 10;
const OWN: u16 = 27;
const UNRESOLVED: u16 = 28;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 1, 1];
const EXTERNAL_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BLUE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const SIX_MAC: [u8; 6] = [2, 0, 0, 0, 0, 6];
const UNDERLAY_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

// ---- frames ----

/// RFC 1071, written as plainly as possible.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// The header that the switch, or the controller, puts before a frame.
#[derive(Clone, Copy, Default)]
struct Io {
    reason: u16,
    port: u16,
    network: u16,
    vtep: u16,
    mtu: u16,
    vni: u32,
}

impl Io {
    fn before(self, frame: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([0x88, 0xb5]);
        for word in [self.reason, self.port, self.network, self.vtep, self.mtu] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.vni.to_be_bytes());
        bytes.extend(frame);
        bytes
    }
}

fn at_port(reason: u16, port: u16) -> Io {
    Io { reason, port, ..Io::default() }
}

fn ethernet(to: [u8; 6], from: [u8; 6], vlan: Option<u16>, packet: &[u8]) -> Vec<u8> {
    let mut bytes = [to, from].concat();
    if let Some(tci) = vlan {
        bytes.extend([0x81, 0x00]);
        bytes.extend(tci.to_be_bytes());
    }
    bytes.extend(if packet[0] >> 4 == 4 { [0x08, 0x00] } else { [0x86, 0xdd] });
    bytes.extend(packet);
    bytes
}

/// An IPv4 packet; `fragment` is the word with the flags.
struct V4<'a> {
    from: &'a str,
    to: &'a str,
    dscp: u8,
    id: u16,
    fragment: u16,
    ttl: u8,
    protocol: u8,
    payload: &'a [u8],
}

const DF: u16 = 0x4000;

impl V4<'_> {
    fn bytes(&self) -> Vec<u8> {
        let mut header = vec![0x45, self.dscp << 2];
        header.extend((20 + self.payload.len() as u16).to_be_bytes());
        header.extend(self.id.to_be_bytes());
        header.extend(self.fragment.to_be_bytes());
        header.extend([self.ttl, self.protocol, 0, 0]);
        header.extend(self.from.parse::<Ipv4Addr>().unwrap().octets());
        header.extend(self.to.parse::<Ipv4Addr>().unwrap().octets());
        let checksum = sum(&[&header]).to_be_bytes();
        header[10..12].copy_from_slice(&checksum);
        [&header, self.payload].concat()
    }
}

fn v4<'a>(from: &'a str, to: &'a str, protocol: u8, payload: &'a [u8]) -> V4<'a> {
    V4 { from, to, dscp: 0, id: 0x1234, fragment: DF, ttl: 1, protocol, payload }
}

fn v6(from: &str, to: &str, traffic_class: u8, hop_limit: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60 | traffic_class >> 4, traffic_class << 4, 0, 0];
    bytes.extend((payload.len() as u16).to_be_bytes());
    bytes.extend([next, hop_limit]);
    bytes.extend(from.parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend(to.parse::<Ipv6Addr>().unwrap().octets());
    bytes.extend(payload);
    bytes
}

/// Returns type, code, checksum and the rest.
fn icmp4(kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let checksum = sum(&[&[kind, code, 0, 0], rest]).to_be_bytes();
    [&[kind, code], &checksum, rest].concat()
}

fn icmp6(from: &str, to: &str, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    let octets = |address: &str| address.parse::<Ipv6Addr>().unwrap().octets();
    let len = (4 + rest.len() as u32).to_be_bytes();
    let checksum =
        sum(&[&octets(from), &octets(to), &len, &[0, 0, 0, 58], &[kind, code, 0, 0], rest]).to_be_bytes();
    [&[kind, code], &checksum, rest].concat()
}

/// Returns UDP's ports, a length, no checksum, and `len` bytes.
fn udp(len: usize) -> Vec<u8> {
    let mut bytes = vec![0x03, 0xe8, 0x82, 0x9b, 0, 0, 0, 0];
    bytes.extend((0..len).map(|at| at as u8));
    bytes
}

/// Returns an IPv4 error message of the gateway.
fn error4(io: Io, mac: [u8; 6], vlan: Option<u16>, from: &str, to: &str, icmp: &[u8]) -> Vec<u8> {
    let ip = V4 { from, to, dscp: 48, id: 7, fragment: 0, ttl: 64, protocol: 1, payload: icmp };
    io.before(&ethernet(CLIENT_MAC, mac, vlan, &ip.bytes()))
}

fn error6(io: Io, mac: [u8; 6], vlan: Option<u16>, from: &str, to: &str, icmp: &[u8]) -> Vec<u8> {
    io.before(&ethernet(CLIENT_MAC, mac, vlan, &v6(from, to, 48 << 2, 64, 58, icmp)))
}

#[track_caller]
fn gives(frame: &[u8], kind: Answer, expected: &[u8]) {
    let (found, bytes) = answer(frame, &own(), 7).unwrap();
    assert_eq!(found, kind);
    assert_eq!(hex(&bytes), hex(expected));
    check(&bytes);
}

#[track_caller]
fn is_silent(frame: &[u8], why: Silence) {
    assert_eq!(answer(frame, &own(), 7).map(|(kind, bytes)| (kind, hex(&bytes))), Err(why));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|c| !c.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|c| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap()).collect()
}

/// Checks that an answer has correct lengths and checksums, and one of our addresses.
fn check(frame: &[u8]) {
    assert_eq!(frame[..14], [&[0; 12][..], &[0x88, 0xb5]].concat());
    assert!(frame.len() <= 28 + 18 + 1280);
    let mut rest = &frame[28 + 12..];
    if rest[..2] == [0x81, 0] {
        rest = &rest[4..];
    }
    let (ether_type, packet) = rest.split_at(2);
    let word = |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
    match ether_type {
        [8, 0] => {
            assert_eq!((packet[0], word(2), packet[9]), (0x45, packet.len(), 1));
            assert!(packet[20] == 0 || packet.len() <= 576);
            assert_eq!((sum(&[&packet[..20]]), sum(&[&packet[20..]])), (0, 0));
        }
        [0x86, 0xdd] => {
            assert_eq!((packet[0] >> 4, word(4) + 40, packet[6]), (6, packet.len(), 58));
            assert!(packet.len() <= 1280);
            let len = (packet.len() as u32 - 40).to_be_bytes();
            assert_eq!(sum(&[&packet[8..40], &len, &[0, 0, 0, 58], &packet[40..]]), 0);
        }
        other => panic!("{other:x?}"),
    }
}

// ---- errors ----

#[test]
fn byte_by_byte() {
    // A client's SYN to 198.51.100.1 with TTL 1, as in tests/controller.stf.
    gives(
        &bytes(
            "000000000000000000000000 88b5 0009 0000 0001 0000 05aa 00000000
             020000000001 020000000101 0800
             45000028000000000106 5396 cb007105 c6336401 03e8005000000001000000005002200000000000",
        ),
        Answer::TimeExceeded,
        &bytes(
            "000000000000000000000000 88b5 0000 0000 0000 0000 0000 00000000
             020000000101 020000000001 0800
             45c0004400070000400112bbc63364fecb0071050b0080c400000000450000280000000001065396cb007105c6336401
             03e8005000000001000000005002200000000000",
        ),
    );
    // 1460 bytes of IPv6 for a tunnel with an MTU of 1430, from VLAN 60: of the part that the switch left, 1232 bytes
    // come back.
    let packet = v6("2001:db8:9::5", "2001:db8:1::1", 0, 64, 17, &udp(1412));
    let frame = ethernet(SIX_MAC, CLIENT_MAC, Some(0x603c), &packet[..1232]);
    let io = Io { reason: MTU, port: 6, network: 1, vtep: 0, mtu: 1430, vni: 0 };
    let (kind, found) = answer(&io.before(&frame), &own(), 0).unwrap();
    assert_eq!((kind, found.len()), (Answer::TooBig, 28 + 18 + 1280));
    assert_eq!(hex(&found[..28 + 18 + 48]), hex(&bytes("000000000000000000000000 88b5 0000 0006 0002 0000 0000 00000000
             020000000101 020000000006 8100 603c 86dd
             6c00000004d83a4020010db800060000000000000000000120010db8000900000000000000000005020074e600000596")));
    assert_eq!(found[28 + 18 + 48..], packet[..1232]);
    check(&found);
    // A server's packet that came through a tunnel, with TTL 1.
    gives(
        &bytes(
            "000000000000000000000000 88b5 0009 0001 0001 0002 05dc 00000064
             020000000003 020000000201 0800
             450000280000000001065396c6336401cb007105005003e800000001000000005002200000000000",
        ),
        Answer::TimeExceeded,
        &bytes(
            "000000000000000000000000 88b5 0000 0001 0001 0002 0000 00000064
             020000000201 020000000003 0800
             45c000440007000040018dbcc0000201c63364010b0080c400000000450000280000000001065396c6336401cb007105
             005003e800000001000000005002200000000000",
        ),
    );
    // An echo request of four bytes, padded by Ethernet.
    gives(
        &bytes(
            "000000000000000000000000 88b5 001b 0000 0000 0000 0000 00000000
             020000000001 020000000101 0800
             4568 0020 4321 4000 4001901c cb007105 c63364fe 080033360001000261626364
             0000 00000000 00000000 00000000",
        ),
        Answer::Echo,
        &bytes(
            "000000000000000000000000 88b5 0000 0000 0000 0000 0000 00000000
             020000000101 020000000001 0800
             456800200007000040011337c63364fecb00710500003b360001000261626364",
        ),
    );
}

#[test]
fn too_big_of_ipv4_needs_df() {
    let payload = udp(1400);
    let packet = v4("203.0.113.5", "198.51.100.1", 17, &payload);
    let frame = |packet: &V4| ethernet(EXTERNAL_MAC, CLIENT_MAC, None, &packet.bytes()[..1250 - 18]);
    let io = Io { mtu: 1400, network: 1, ..at_port(MTU, 0) };
    let quoted = &packet.bytes()[..548];
    let icmp = icmp4(3, 4, &[&[0, 0, 0x05, 0x78], quoted].concat());
    let expected = error4(at_port(0, 0), EXTERNAL_MAC, None, "198.51.100.254", "203.0.113.5", &icmp);
    assert_eq!(expected.len(), 28 + 14 + 576);
    gives(&io.before(&frame(&packet)), Answer::TooBig, &expected);
    // RFC 792: code 4 means that DF is set. A first fragment with it is also reported.
    is_silent(&io.before(&frame(&V4 { fragment: 0, ..packet })), Silence::Fragmentable);
    let first = v4("203.0.113.5", "198.51.100.1", 17, &payload);
    let first = V4 { fragment: DF | 0x2000, ..first };
    assert!(answer(&io.before(&frame(&first)), &own(), 7).is_ok());
}

#[test]
fn the_way_back() {
    let payload = udp(4);
    let packet = v4("203.0.113.5", "192.0.2.31", 17, &payload).bytes();
    let icmp = icmp4(11, 0, &[&[0; 4], &packet[..]].concat());
    let (client, blue) = ("203.0.113.5", "192.0.2.1");
    // The network that the switch names does not matter: it may be that of the egress.
    let io = |port, vtep, vni| Io { network: 2, mtu: 1450, vtep, vni, ..at_port(TTL, port) };
    // A tenant's port, and one with a tag, whose priority is kept.
    gives(
        &io(2, 0, 0).before(&ethernet(BLUE_MAC, CLIENT_MAC, None, &packet)),
        Answer::TimeExceeded,
        &error4(Io { network: 1, ..at_port(0, 2) }, BLUE_MAC, None, blue, client, &icmp),
    );
    let tag = Some(0xa00a);
    gives(
        &io(3, 0, 0).before(&ethernet(BLUE_MAC, CLIENT_MAC, tag, &packet)),
        Answer::TimeExceeded,
        &error4(Io { network: 1, ..at_port(0, 3) }, BLUE_MAC, tag, blue, client, &icmp),
    );
    // VLAN 0 means no VLAN.
    gives(
        &io(2, 0, 0).before(&ethernet(BLUE_MAC, CLIENT_MAC, Some(0xe000), &packet)),
        Answer::TimeExceeded,
        &error4(Io { network: 1, ..at_port(0, 2) }, BLUE_MAC, None, blue, client, &icmp),
    );
    // Two tunnels into two networks; the second one has IPv6 addresses only, its tenant others.
    let back = Io { network: 1, vtep: 3, vni: 100, ..at_port(0, 1) };
    gives(
        &io(1, 3, 100).before(&ethernet(BLUE_MAC, CLIENT_MAC, None, &packet)),
        Answer::TimeExceeded,
        &error4(back, BLUE_MAC, None, blue, client, &icmp),
    );
    let back = Io { network: 2, vtep: 1, vni: 0x010203, ..at_port(0, 1) };
    gives(
        &io(1, 1, 0x010203).before(&ethernet(SIX_MAC, CLIENT_MAC, None, &packet)),
        Answer::TimeExceeded,
        &error4(back, SIX_MAC, None, "198.51.100.254", client, &icmp),
    );
    // The underlay's port without a tunnel.
    gives(
        &io(1, 0, 0).before(&ethernet(UNDERLAY_MAC, CLIENT_MAC, None, &packet)),
        Answer::TimeExceeded,
        &error4(at_port(0, 1), UNDERLAY_MAC, None, "10.0.0.1", client, &icmp),
    );
    // The clients' port has no IPv6 address, so one of a network of the same tenant is used.
    let packet6 = v6("2001:db8:9::5", "2001:db8:1::1", 0, 1, 17, &payload);
    let (from, to) = ("2001:db8:6::1", "2001:db8:9::5");
    let icmp = icmp6(from, to, 3, 0, &[&[0; 4], &packet6[..]].concat());
    gives(
        &io(0, 0, 0).before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, None, &packet6)),
        Answer::TimeExceeded,
        &error6(at_port(0, 0), EXTERNAL_MAC, None, from, to, &icmp),
    );
    // A tenant without any address, ports, VLANs and networks that are not configured.
    for (io, tag) in [(io(9, 0, 0), None), (io(8, 0, 0), None), (io(2, 0, 0), Some(7)), (io(1, 1, 101), None)]
    {
        is_silent(&io.before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, tag, &packet)), Silence::NoAddress);
    }
}

#[test]
fn answers_that_the_rfcs_forbid() {
    let ask = |packet: &[u8]| at_port(TTL, 0).before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, None, packet));
    let (client, vip) = ("203.0.113.5", "198.51.100.1");
    let payload = udp(20);
    // About errors, but not about queries or anything that only resembles an error.
    for (kind, is_error) in
        [(0, false), (3, true), (4, true), (5, true), (8, false), (11, true), (12, true), (13, false)]
    {
        let icmp = icmp4(kind, 0, &[0; 24]);
        let frame = ask(&v4(client, vip, 1, &icmp).bytes());
        match is_error {
            true => is_silent(&frame, Silence::Forbidden),
            false => assert_eq!(answer(&frame, &own(), 7).unwrap().0, Answer::TimeExceeded),
        }
    }
    is_silent(&ask(&v4(client, vip, 1, &[]).bytes()), Silence::Forbidden);
    assert!(answer(&ask(&v4(client, vip, 17, &[3; 8]).bytes()), &own(), 7).is_ok());
    // Fragments except the first.
    is_silent(&ask(&V4 { fragment: 0x2001, ..v4(client, vip, 17, &payload) }.bytes()), Silence::Forbidden);
    assert!(
        answer(&ask(&V4 { fragment: 0x2000, ..v4(client, vip, 17, &payload) }.bytes()), &own(), 7).is_ok()
    );
    // From an address that is not that of one host, to several hosts, and from the gateway itself.
    for from in
        ["0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "198.51.100.254"]
    {
        is_silent(&ask(&v4(from, vip, 17, &payload).bytes()), Silence::Forbidden);
    }
    for to in ["224.0.0.5", "239.255.255.250"] {
        is_silent(&ask(&v4(client, to, 17, &payload).bytes()), Silence::Forbidden);
    }
    let packet = v4(client, vip, 17, &payload).bytes();
    for (to, from) in [
        ([0xff; 6], CLIENT_MAC),
        ([1, 0, 0x5e, 0, 0, 1], CLIENT_MAC),
        (EXTERNAL_MAC, [3, 0, 0, 0, 0, 1]),
        (EXTERNAL_MAC, [0; 6]),
    ] {
        is_silent(&at_port(TTL, 0).before(&ethernet(to, from, None, &packet)), Silence::Forbidden);
    }

    let (client, vip) = ("2001:db8:9::5", "2001:db8:1::1");
    for (kind, is_error) in
        [(1, true), (2, true), (3, true), (4, true), (127, true), (128, false), (129, false), (137, true)]
    {
        let icmp = icmp6(client, vip, kind, 0, &[0; 44]);
        for (next, packet) in [(58, icmp.clone()), (60, [&[58, 0, 0, 0, 0, 0, 0, 0], &icmp[..]].concat())] {
            let frame = ask(&v6(client, vip, 0, 1, next, &packet));
            match is_error {
                true => is_silent(&frame, Silence::Forbidden),
                false => assert_eq!(answer(&frame, &own(), 7).unwrap().0, Answer::TimeExceeded),
            }
        }
    }
    // Truncated extension headers hide the protocol.
    is_silent(&ask(&v6(client, vip, 0, 1, 60, &[58, 9, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])), Silence::Forbidden);
    let fragment = |offset: u8| [&[17, 0, 0, offset << 3 | 1, 0, 0, 0, 9], &payload[..]].concat();
    is_silent(&ask(&v6(client, vip, 0, 1, 44, &fragment(1))), Silence::Forbidden);
    assert!(answer(&ask(&v6(client, vip, 0, 1, 44, &fragment(0))), &own(), 7).is_ok());
    for from in ["::", "::1", "ff02::1", "::ffff:203.0.113.5", "2001:db8::a"] {
        is_silent(&ask(&v6(from, vip, 0, 1, 17, &payload)), Silence::Forbidden);
    }
    is_silent(&ask(&v6(client, "ff0e::1", 0, 1, 17, &payload)), Silence::Forbidden);
}

// ---- own addresses ----

#[test]
fn own_addresses_answer() {
    let frame = |packet: &[u8]| at_port(OWN, 0).before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, None, packet));
    let back = |packet: &[u8]| at_port(0, 0).before(&ethernet(CLIENT_MAC, EXTERNAL_MAC, None, packet));
    let (client, ours) = ("203.0.113.5", "198.51.100.254");
    let data: Vec<u8> = (0..1200u32).map(|at| at as u8).collect();
    let echo = [&[0xab, 0xcd, 0, 9], &data[..]].concat();
    let request = icmp4(8, 0, &echo);
    let asked = V4 { dscp: 10, ..v4(client, ours, 1, &request) };
    let reply = icmp4(0, 0, &echo);
    let answered = V4 { dscp: 10, id: 7, fragment: 0, ttl: 64, ..v4(ours, client, 1, &reply) };
    gives(&frame(&asked.bytes()), Answer::Echo, &back(&answered.bytes()));
    // Another own address of the tenant answers for itself.
    let asked = v4(client, "10.0.0.1", 1, &request).bytes();
    let answered = V4 { id: 7, fragment: 0, ttl: 64, ..v4("10.0.0.1", client, 1, &reply) };
    gives(&frame(&asked), Answer::Echo, &back(&answered.bytes()));
    // Truncated, fragmented, damaged, an answer, or for someone else.
    is_silent(&frame(&asked[..asked.len() - 1]), Silence::Incomplete);
    is_silent(&frame(&V4 { fragment: 0x2000, ..v4(client, ours, 1, &request) }.bytes()), Silence::Incomplete);
    let mut wrong = request.clone();
    wrong[20] ^= 1;
    is_silent(&frame(&v4(client, ours, 1, &wrong).bytes()), Silence::Malformed);
    is_silent(&frame(&v4(client, ours, 1, &request[..7]).bytes()), Silence::Malformed);
    is_silent(&frame(&v4(client, ours, 1, &reply).bytes()), Silence::Unanswered);
    is_silent(&frame(&v4(client, "198.51.100.1", 1, &request).bytes()), Silence::NoAddress);
    // UDP ends a traceroute; TCP gets no answer.
    let payload = udp(12);
    let probe = v4(client, ours, 17, &payload).bytes();
    let icmp = icmp4(3, 3, &[&[0; 4], &probe[..]].concat());
    let expected = error4(at_port(0, 0), EXTERNAL_MAC, None, ours, client, &icmp);
    gives(&frame(&probe), Answer::PortUnreachable, &expected);
    is_silent(&frame(&v4(client, ours, 6, &payload).bytes()), Silence::Unanswered);
    let unresolved = at_port(UNRESOLVED, 0).before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, None, &probe));
    is_silent(&unresolved, Silence::Unanswered);
}

#[test]
fn own_addresses_of_ipv6_answer() {
    let tag = Some(60);
    let frame = |packet: &[u8]| at_port(OWN, 6).before(&ethernet(SIX_MAC, CLIENT_MAC, tag, packet));
    let io = Io { network: 2, ..at_port(0, 6) };
    let back = |packet: &[u8]| io.before(&ethernet(CLIENT_MAC, SIX_MAC, tag, packet));
    let (client, ours) = ("2001:db8:6::77", "2001:db8:6::2");
    let echo = [&[0xab, 0xcd, 0, 9], &b"hello"[..]].concat();
    let request = v6(client, ours, 0x28, 9, 58, &icmp6(client, ours, 128, 0, &echo));
    let reply = v6(ours, client, 0x28, 64, 58, &icmp6(ours, client, 129, 0, &echo));
    gives(&frame(&request), Answer::Echo, &back(&reply));
    is_silent(&frame(&request[..request.len() - 1]), Silence::Incomplete);
    let wrong = v6(client, ours, 0, 9, 58, &icmp6(client, client, 128, 0, &echo));
    is_silent(&frame(&wrong), Silence::Malformed);
    let payload = udp(12);
    let probe = v6(client, ours, 0, 9, 17, &payload);
    let icmp = icmp6(ours, client, 1, 4, &[&[0; 4], &probe[..]].concat());
    gives(&frame(&probe), Answer::PortUnreachable, &error6(io, SIX_MAC, tag, ours, client, &icmp));

    // Checks that the neighbour is reachable: to one of its addresses, about another.
    let solicits = |target: &str, hop_limit: u8| {
        let target = target.parse::<Ipv6Addr>().unwrap().octets();
        let rest = [&[0; 4], &target[..], &[1, 1], &CLIENT_MAC].concat();
        frame(&v6(client, ours, 0, hop_limit, 58, &icmp6(client, ours, 135, 0, &rest)))
    };
    let target = "2001:db8:6::1";
    let octets = target.parse::<Ipv6Addr>().unwrap().octets();
    let rest = [&[0xe0, 0, 0, 0], &octets[..], &[2, 1], &SIX_MAC].concat();
    let says = v6(target, client, 0, 255, 58, &icmp6(target, client, 136, 0, &rest));
    gives(&solicits(target, 255), Answer::Advertisement, &back(&says));
    is_silent(&solicits(target, 254), Silence::Malformed);
    is_silent(&solicits("2001:db8:6::77", 255), Silence::NoAddress);
}

// ---- any bytes ----

#[test]
fn frames_that_are_not_from_the_switch() {
    let packet = v4("203.0.113.5", "198.51.100.1", 17, &udp(4)).bytes();
    let good = at_port(TTL, 0).before(&ethernet(EXTERNAL_MAC, CLIENT_MAC, None, &packet));
    assert!(answer(&good, &own(), 7).is_ok());
    for len in 0..good.len() {
        let found = answer(&good[..len], &own(), 7);
        match len {
            ..28 => assert_eq!(found, Err(Silence::Foreign)),
            28..62 => assert_eq!(found, Err(Silence::Malformed)),
            _ => assert_eq!(found.unwrap().0, Answer::TimeExceeded, "as long as there is the IP header"),
        }
    }
    let mut other = good.clone();
    other[13] = 0xb6;
    is_silent(&other, Silence::Foreign);
    // ARP; two tags; a tag in a tunnel; the other version of IP.
    let mut arp = good.clone();
    arp[28 + 13] = 6;
    is_silent(&arp, Silence::Malformed);
    let mut tags = ethernet(EXTERNAL_MAC, CLIENT_MAC, Some(1), &packet);
    tags.splice(12..12, [0x81, 0, 0, 0]);
    is_silent(&at_port(TTL, 0).before(&tags), Silence::Malformed);
    let tunnel = Io { vtep: 1, vni: 100, ..at_port(TTL, 1) };
    is_silent(&tunnel.before(&ethernet(BLUE_MAC, CLIENT_MAC, Some(10), &packet)), Silence::Malformed);
    let mut six = good;
    six[28 + 14] = 0x65;
    is_silent(&six, Silence::Malformed);
}

/// Number of mutated frames; each differs by a few edits from a frame that is answered.
const CASES: u64 = if cfg!(debug_assertions) { 20_000 } else { 200_000 };

fn seeds() -> Vec<Vec<u8>> {
    let (client, ours) = ("203.0.113.5", "198.51.100.254");
    let (client6, ours6) = ("2001:db8:6::77", "2001:db8:6::2");
    let long = udp(1180);
    let target = [&[0; 4], &ours6.parse::<Ipv6Addr>().unwrap().octets()[..]].concat();
    let external = |packet: &[u8]| ethernet(EXTERNAL_MAC, CLIENT_MAC, None, packet);
    let six = |packet: &[u8]| ethernet(SIX_MAC, CLIENT_MAC, Some(60), packet);
    let tunnel = Io { vtep: 1, vni: 100, mtu: 1400, ..at_port(MTU, 1) };
    let options = [&[44, 0, 1, 4, 0, 0, 0, 0], &[17, 0, 0, 1, 0, 0, 0, 9], &long[..]].concat();
    vec![
        at_port(TTL, 0).before(&external(&v4(client, "198.51.100.1", 17, &long).bytes())),
        at_port(OWN, 0).before(&external(&v4(client, ours, 1, &icmp4(8, 0, &[1; 40])).bytes())),
        at_port(OWN, 0).before(&external(&v4(client, ours, 17, &long[..20]).bytes())),
        tunnel.before(&ethernet(BLUE_MAC, CLIENT_MAC, None, &v4(client, ours, 6, &long).bytes())),
        at_port(TTL, 6).before(&six(&v6(client6, ours6, 0, 1, 6, &long))),
        at_port(MTU, 6).before(&six(&v6(client6, ours6, 0, 1, 0, &options))),
        at_port(OWN, 6).before(&six(&v6(
            client6,
            ours6,
            0,
            255,
            58,
            &icmp6(client6, ours6, 135, 0, &target),
        ))),
        at_port(OWN, 6).before(&six(&v6(client6, ours6, 0, 1, 58, &icmp6(client6, ours6, 128, 0, &[7; 9])))),
    ]
}

#[test]
fn every_frame_gets_a_correct_answer_or_none() {
    let only: Option<u64> = std::env::var("CASE").ok().map(|case| case.parse().unwrap());
    let (own, seeds) = (own(), seeds());
    for (at, seed) in seeds.iter().enumerate() {
        answer(seed, &own, 7).unwrap_or_else(|why| panic!("seed {at}: {why}"));
    }
    let mut answered = 0;
    for case in (0..CASES).filter(|case| only.is_none_or(|only| only == *case)) {
        let mut random = Random::from_number(case);
        let at = random.below(seeds.len());
        let mut frame = seeds[at].clone();
        for _ in 0..=random.below(4) {
            // The first bytes are the most important.
            let bound = if random.below(4) == 0 { frame.len() } else { frame.len().min(120) };
            let place = random.below(bound.max(1));
            match random.below(7) {
                0 => frame.truncate(place),
                1 => drop(frame.splice(place.min(frame.len()).., seeds[random.below(8)][20..].to_vec())),
                2 if place < frame.len() => drop(frame.remove(place)),
                3 => frame.insert(place.min(frame.len()), random.next() as u8),
                4 if place < frame.len() => frame[place] ^= 1 << random.below(8),
                _ if place < frame.len() => {
                    frame[place] = random.pick(&[0, 1, 4, 6, 17, 44, 58, 60, 0x45, 0x7f, 0x80, 0xff]);
                }
                _ => {}
            }
        }
        let found = std::panic::catch_unwind(|| {
            if let Ok((_, bytes)) = answer(&frame, &own, case as u16) {
                check(&bytes);
                return 1;
            }
            0
        });
        answered += found.unwrap_or_else(|_| panic!("CASE={case}: {}", hex(&frame)));
    }
    assert!(only.is_some() || (CASES / 10..CASES * 9 / 10).contains(&answered), "{answered} of {CASES}");
}
