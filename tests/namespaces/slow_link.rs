//! A slow link, created with `tc`: programs see the packets that wait for it, although no output queue is configured.

use super::{DEADLINE, Network, RIGHT, RIGHT_MAC, ROUTER_MACS, Switch};
use crate::common;
use crate::netns::Namespace;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Marks packets that wait behind `MARK` others (ECN's congestion experienced), and writes their queue metadata to the
/// datagram.
const PROGRAM: &str = r#"#include <v1model.p4>
header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header ip_t {
    bit<8> version_ihl; bit<6> dscp; bit<2> ecn; bit<16> len; bit<32> id_frag; bit<8> ttl; bit<8> proto; bit<16> sum;
    bit<32> src; bit<32> dst;
}
header udp_t { bit<16> src; bit<16> dst; bit<16> len; bit<16> sum; }
header queueing_t { bit<32> enq_depth; bit<32> deq_depth; bit<32> waited; bit<32> marked; }
struct headers { eth_t eth; ip_t ip; udp_t udp; queueing_t queueing; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.eth); transition select(hdr.eth.type) { 0x800: ip; default: accept; } }
    state ip { p.extract(hdr.ip); transition select(hdr.ip.proto) { 17: udp; default: accept; } }
    state udp { p.extract(hdr.udp); transition select(hdr.udp.dst) { 7001: queueing; default: accept; } }
    state queueing { p.extract(hdr.queueing); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control In(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply {
        if (hdr.queueing.isValid()) {
            sm.egress_spec = 1;
            hdr.eth.src = SOURCE;
            hdr.eth.dst = DESTINATION;
        } else {
            mark_to_drop(sm);
        }
    }
}
control Eg(inout headers hdr, inout meta m, inout standard_metadata_t sm) {
    apply {
        if (sm.enq_qdepth >= MARK) {
            hdr.ip.ecn = 3;
            hdr.queueing.marked = 1;
        }
        hdr.queueing.enq_depth = (bit<32>) sm.enq_qdepth;
        hdr.queueing.deq_depth = (bit<32>) sm.deq_qdepth;
        hdr.queueing.waited = sm.deq_timedelta;
        hdr.udp.sum = 0;
    }
}
control C(inout headers hdr, inout meta m) {
    apply {
        update_checksum(hdr.ip.isValid(), { hdr.ip.version_ihl, hdr.ip.dscp, hdr.ip.ecn, hdr.ip.len, hdr.ip.id_frag,
            hdr.ip.ttl, hdr.ip.proto, hdr.ip.src, hdr.ip.dst }, hdr.ip.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), In(), Eg(), C(), D()) main;
"#;

/// The depth from which packets are marked.
const MARK: u32 = 10;
/// The capacity of bmv2's queues.
const DEPTH_MAX: u32 = 64;
const PORT: u16 = 7001;
/// Number of datagrams after which one must have waited: they are much faster than 2 Mbit/s.
const DATAGRAMS_MAX: usize = 5000;

/// The queue metadata in a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queueing {
    enq_depth: u32,
    deq_depth: u32,
    waited_us: u32,
    is_marked: bool,
}

struct Hosts {
    from: UdpSocket,
    to: UdpSocket,
}

impl Hosts {
    fn new(network: &Network) -> Hosts {
        let bound = |host: &Namespace| host.enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).unwrap());
        let hosts = Hosts { from: bound(&network.left), to: bound(&network.right) };
        hosts.from.connect((RIGHT, PORT)).unwrap();
        hosts
    }

    fn send(&self) {
        // After the fields that the program writes: so long that a link of 2 Mbit/s takes 4 ms.
        self.from.send(&[0; 1000]).unwrap();
    }

    fn receive(&self, within: Duration) -> Option<Queueing> {
        self.to.set_read_timeout(Some(within)).unwrap();
        let mut bytes = [0; 2000];
        self.to.recv(&mut bytes).ok()?;
        let word = |at: usize| u32::from_be_bytes(bytes[4 * at..][..4].try_into().unwrap());
        Some(Queueing { enq_depth: word(0), deq_depth: word(1), waited_us: word(2), is_marked: word(3) == 1 })
    }

    /// Sends one datagram that finds an empty queue.
    fn alone(&self) -> Queueing {
        self.send();
        self.receive(DEADLINE).expect("it arrives")
    }
}

/// Runs `tc` in the switch's namespace; returns its message if it fails.
fn tc(network: &Network, arguments: &str) -> Result<(), String> {
    let mut tc = Command::new("tc");
    tc.args(arguments.split_whitespace()).stdin(Stdio::null());
    let output = network.switch.enter(move || tc.output()).map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_string()),
    }
}

#[test]
fn a_slow_link_fills_queues_without_configuration() {
    need_namespaces!();
    let network = Network::new();
    let text = PROGRAM
        .replace("SOURCE", &format!("0x{}", ROUTER_MACS[1].replace(':', "")))
        .replace("DESTINATION", &format!("0x{}", RIGHT_MAC.replace(':', "")))
        .replace("MARK", &MARK.to_string());
    let program = network.files.write("ecn.p4", text);
    // The second refuses what the first only delays: its queue is shorter than what the kernel accepts from a socket.
    for qdisc in ["tbf rate 2mbit burst 4kb limit 1mb", "tbf rate 2mbit burst 4kb limit 20kb"] {
        let mut command = common::p4jet();
        command.args(["run", &program]);
        let switch: Switch = network.start_with(command, "", &[]);
        let hosts = Hosts::new(&network);
        let nothing = Queueing { enq_depth: 0, deq_depth: 0, waited_us: 0, is_marked: false };
        for _ in 0..20 {
            let queued = Queueing { waited_us: 0, ..hosts.alone() };
            assert_eq!(queued, nothing, "a link that is not slow");
        }
        if let Err(why) = tc(&network, &format!("qdisc add dev s1 root {qdisc}")) {
            eprintln!("SKIPPED: tc qdisc add … {qdisc}: {why}");
            return;
        }
        let (mut all, mut sent) = (Vec::new(), 0);
        let marked = |all: &[Queueing]| all.iter().any(|queued| queued.is_marked);
        for n in 0.. {
            assert!(n < DATAGRAMS_MAX, "{qdisc}: none waited: {:?}", all.last());
            hosts.send();
            sent += 1;
            // The kernel accepts about a hundred before the switch makes any wait.
            if n % 300 == 299 {
                while let Some(queued) = hosts.receive(Duration::from_millis(20)) {
                    all.push(queued);
                    if marked(&all) {
                        break;
                    }
                }
                if marked(&all) {
                    break;
                }
            }
        }
        // Waiting packets arrive too, and then the link is idle.
        let end = Instant::now() + DEADLINE;
        while all.len() < sent
            && let Some(queued) = hosts.receive(Duration::from_secs(5))
        {
            assert!(Instant::now() < end);
            all.push(queued);
        }
        let idle = hosts.alone();
        assert_eq!((idle.enq_depth, idle.deq_depth, idle.is_marked), (0, 0, false), "{qdisc}");
        for queued in &all {
            assert_eq!(queued.is_marked, queued.enq_depth >= MARK, "{queued:?}");
            assert!(queued.enq_depth < DEPTH_MAX && queued.deq_depth <= DEPTH_MAX, "{queued:?}");
        }
        let deepest = all.iter().max_by_key(|queued| queued.enq_depth).unwrap();
        // The packets before it took 4 ms each; the first may have been partly sent, and those in the kernel are not
        // counted.
        assert!(deepest.waited_us > 2000 * deepest.enq_depth, "{qdisc}: {deepest:?}");
        tc(&network, "qdisc del dev s1 root").unwrap();
        switch.finish();
    }
}
