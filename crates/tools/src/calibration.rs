//! Generated programs, entries and packets that differ in one thing each, from which the speed of a machine is learned:
//! `p4jet profile`.

use crate::checksum::Sum;
use crate::random::Random;
use std::collections::HashSet;
use std::fmt::Write as _;

/// A program with entries and packets.
pub struct Point {
    /// What varies.
    pub name: String,
    /// The program.
    pub program: String,
    /// Runtime commands that set up the tables.
    pub commands: String,
    /// The packets, played in a loop.
    pub frames: Vec<Vec<u8>>,
}

/// A program, by what it contains. All headers follow each other: Ethernet, `x` with keys of many widths, IPv4, UDP, and others of
/// 16 bytes.
#[derive(Clone)]
struct Shape {
    with_x: bool,
    with_ipv4: bool,
    /// Other headers.
    others: usize,
    /// Each state selects the next one by a field of its header.
    selects: bool,
    verifies: bool,
    updates: bool,
    /// Statements of ingress, before the port is set.
    ingress: Vec<String>,
    /// Declarations of ingress.
    declared: Vec<String>,
    /// Statements of egress.
    egress: Vec<String>,
    /// Number of keys among which packets choose evenly.
    keys: u64,
    /// Number of packets.
    packets: usize,
    frame_bytes: usize,
    commands: String,
    /// On average one packet in this number ends after Ethernet; 0 for none.
    short_every: u64,
    /// With `selects`: packets end after a random number of the other headers.
    varies_depth: bool,
    /// On average one packet in this number has keys that no table has; 0 for none.
    unknown_every: u64,
    /// Few keys are in most packets.
    is_skewed: bool,
    /// Wildness of five-tuple rules: the larger, the more rules a packet may match.
    wild: u64,
}

const SHAPE: Shape = Shape {
    with_x: false,
    with_ipv4: false,
    others: 0,
    selects: false,
    verifies: false,
    updates: false,
    ingress: Vec::new(),
    declared: Vec::new(),
    egress: Vec::new(),
    keys: 1024,
    packets: 16_384,
    frame_bytes: 60,
    commands: String::new(),
    short_every: 0,
    varies_depth: false,
    unknown_every: 0,
    is_skewed: false,
    wild: 0,
};

/// Widths of the key fields of the header `x`, in their order.
const KEYS: [u32; 5] = [128, 64, 32, 16, 8];
const PORTS: u64 = 4;

/// The value of a key field for a key number: different for different numbers, as far as the width allows.
fn key(width: u32, number: u64) -> u128 {
    let spread = u128::from(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    match width {
        128 => spread << 64 | u128::from(number.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ 0x5555),
        64 => spread,
        48 => u128::from((number + 1).wrapping_mul(0x9e37_79b9_7f4b) & 0xffff_ffff_ffff),
        32 => u128::from((number as u32 + 1).wrapping_mul(0x9e37_79b1)),
        16 => u128::from((number as u16).wrapping_mul(0x9e3b)),
        _ => u128::from((number as u8).wrapping_mul(0x9d)),
    }
}

/// The field with a key of this width.
fn field(width: u32) -> String {
    match width {
        48 => "hdr.ethernet.dst".to_string(),
        _ => format!("hdr.x.k{width}"),
    }
}

impl Shape {
    fn with(mut self, change: impl FnOnce(&mut Shape)) -> Shape {
        change(&mut self);
        self
    }

    /// Adds a table with the keys from the first one on, that is applied as `apply` says, in which {} is its name.
    fn table(&mut self, kind: &str, width: u32, entries: u64, actions: usize) {
        self.table_applied(kind, width, entries, actions, "{}.apply();", false);
    }

    fn table_applied(
        &mut self,
        kind: &str,
        width: u32,
        entries: u64,
        actions: usize,
        apply: &str,
        counts: bool,
    ) {
        let name = format!("t{}", self.declared.len());
        self.with_x = true;
        let mut listed = String::new();
        for action in 0..actions {
            let _ = writeln!(
                self.declared_text(),
                "action {name}_a{action}(bit<9> port) {{ meta.m{} = (bit<16>) port + {action}; std.egress_spec = port; }}",
                action % 4
            );
            let _ = write!(listed, "{name}_a{action}; ");
        }
        let key_text = match kind {
            "five" => "hdr.ipv4.src: ternary; hdr.ipv4.dst: ternary; hdr.ipv4.protocol: ternary; hdr.udp.src: range; hdr.udp.dst: range;".to_string(),
            _ => format!("{}: {kind};", field(width)),
        };
        self.with_ipv4 |= kind == "five";
        let size = entries.next_power_of_two().max(64) * 2;
        let counters = match counts {
            true => {
                self.declared.push(format!("direct_counter(CounterType.packets) {name}_counter;"));
                format!("counters = {name}_counter;")
            }
            false => String::new(),
        };
        self.declared.push(format!(
            "table {name} {{ key = {{ {key_text} }} actions = {{ {listed}NoAction; }} default_action = NoAction(); size = {size}; \
             {counters} }}"
        ));
        self.ingress.push(apply.replace("{}", &name));
        let mut random = Random::new(0x7461_0000 + entries + u64::from(width));
        let mut given = HashSet::new();
        for number in 0..entries {
            let value = key(width, number);
            let action = number as usize % actions;
            let port = number % PORTS;
            let match_key = match kind {
                "exact" => format!("{value:#x}"),
                "lpm" => {
                    // Most prefixes are shorter than the key; the key still finds its own.
                    let bits = match width {
                        32 => [24, 32, 28, 24][number as usize % 4],
                        _ => [64, 48, 96, 128][number as usize % 4],
                    };
                    let kept = value >> (width - bits) << (width - bits);
                    format!("{kept:#x}/{bits}")
                }
                "ternary" => {
                    let masks: [u128; 4] =
                        [u128::MAX, u128::MAX << 8, u128::MAX << (width / 2), !(0xff << (width / 2))];
                    let full = if width == 128 { u128::MAX } else { (1 << width) - 1 };
                    let mask = masks[number as usize % 4] & full;
                    format!("{:#x}&&&{mask:#x}", value & mask)
                }
                "range" => format!("{value:#x}->{value:#x}"),
                _ => five(number, self.wild, &mut random),
            };
            // What several keys would share is given once; the others have entries of their own.
            let match_key = match kind {
                "lpm" | "ternary" if !given.insert(match_key.clone()) => match kind {
                    "lpm" => format!("{value:#x}/{width}"),
                    _ => {
                        format!("{value:#x}&&&{:#x}", if width == 128 { u128::MAX } else { (1 << width) - 1 })
                    }
                },
                _ => match_key,
            };
            let priority = match kind {
                "ternary" | "range" | "five" => format!(" {}", number + 1),
                _ => String::new(),
            };
            let _ =
                writeln!(self.commands, "table_add {name} {name}_a{action} {match_key} => {port}{priority}");
        }
    }

    fn declared_text(&mut self) -> &mut String {
        self.declared.push(String::new());
        self.declared.last_mut().expect("just pushed")
    }

    fn program(&self) -> String {
        let mut p = String::from("#include <core.p4>\n#include <v1model.p4>\n");
        p += "header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }\n";
        p += "header x_t { bit<128> k128; bit<64> k64; bit<32> k32; bit<16> k16; bit<8> k8; bit<8> next; }\n";
        p += "header ipv4_t { bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags; bit<13> offset;\n\
              bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst; }\n";
        p += "header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }\n";
        p += "header other_t { bit<8> next; bit<8> a; bit<16> b; bit<32> c; bit<64> d; }\n";
        p += "struct headers_t { ethernet_t ethernet; x_t x; ipv4_t ipv4; udp_t udp;\n";
        let headers_max = self.others.max(8) + 8;
        (0..headers_max).for_each(|i| p += &format!("other_t o{i};\n"));
        p += "}\nstruct meta_t { bit<16> m0; bit<16> m1; bit<16> m2; bit<16> m3; bit<32> w0; bit<32> w1; }\n";
        p += "parser P(packet_in b, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {\n";
        let mut states = vec![("ethernet".to_string(), "hdr.ethernet.type", 0x900)];
        if self.with_x {
            states.push(("x".to_string(), "hdr.x.next", 1));
        }
        if self.with_ipv4 {
            states.push(("ipv4".to_string(), "hdr.ipv4.protocol", 17));
            states.push(("udp".to_string(), "hdr.udp.length", 1));
        }
        let fields: Vec<String> = (0..self.others).map(|i| format!("hdr.o{i}.next")).collect();
        states.extend((0..self.others).map(|i| (format!("o{i}"), fields[i].as_str(), 1)));
        for (number, (name, by, value)) in states.iter().enumerate() {
            let state = if number == 0 { "start" } else { name };
            let next = states.get(number + 1).map_or("accept", |(name, _, _)| name);
            let selects = next != "accept" && *name != "udp" && (self.selects || number == 0);
            let to = match selects {
                true => format!("select({by}) {{ {value}: {next}; default: accept; }}"),
                false => format!("{next};"),
            };
            p += &format!("state {state} {{ b.extract(hdr.{name}); transition {to} }}\n");
        }
        let sum = "hdr.ipv4.isValid(), { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags, \
                   hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }, hdr.ipv4.checksum, \
                   HashAlgorithm.csum16);";
        p += "}\ncontrol V(inout headers_t hdr, inout meta_t meta) { apply { ";
        if self.verifies {
            p += "verify_checksum(";
            p += sum;
        }
        p += " } }\ncontrol I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {\n";
        self.declared.iter().for_each(|text| p += &format!("{text}\n"));
        p += "apply {\nstd.egress_spec = 1;\n";
        self.ingress.iter().for_each(|text| p += &format!("{text}\n"));
        p += "}\n}\ncontrol E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {\n";
        self.egress.iter().for_each(|text| p += &format!("{text}\n"));
        p += "} }\ncontrol C(inout headers_t hdr, inout meta_t meta) { apply { ";
        if self.updates {
            p += "update_checksum(";
            p += sum;
        }
        p += " } }\ncontrol D(packet_out b, in headers_t hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.x); b.emit(hdr.ipv4); b.emit(hdr.udp);\n";
        (0..headers_max).for_each(|i| p += &format!("b.emit(hdr.o{i});"));
        p += "} }\nV1Switch(P(), V(), I(), E(), C(), D()) main;\n";
        p
    }

    fn point(self, name: impl Into<String>) -> Point {
        let mut random = Random::new(0x6361_6c00 + self.keys + self.packets as u64);
        let frames = (0..self.packets)
            .map(|_| {
                let unit = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
                let unit = if self.is_skewed { unit.powi(4) } else { unit };
                let mut number = (unit * self.keys as f64) as u64;
                if self.unknown_every > 0 && random.next().is_multiple_of(self.unknown_every) {
                    number += 1 << 21;
                }
                let short = self.short_every > 0 && random.next().is_multiple_of(self.short_every);
                self.frame(number, short, &mut random)
            })
            .collect();
        Point { name: name.into(), program: self.program(), commands: self.commands, frames }
    }

    fn frame(&self, number: u64, short: bool, random: &mut Random) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend_from_slice(&key(48, number).to_be_bytes()[10..]);
        frame.extend_from_slice(&random.next().to_be_bytes()[2..]);
        let kind: u16 = if short { 0x901 } else { 0x900 };
        frame.extend_from_slice(&kind.to_be_bytes());
        if self.with_x {
            for width in KEYS {
                frame.extend_from_slice(&key(width, number).to_be_bytes()[16 - width as usize / 8..]);
            }
            frame.push(1);
        }
        if self.with_ipv4 {
            let begin = frame.len();
            let of = FiveTuple::of(number, random);
            frame.extend_from_slice(&[0x45, 0, 0, 100, random.next() as u8, 1, 0, 0, 64, 17, 0, 0]);
            frame.extend_from_slice(&of.src.to_be_bytes());
            frame.extend_from_slice(&of.dst.to_be_bytes());
            let sum = Sum::default().add(&frame[begin..]).checksum();
            frame[begin + 10..begin + 12].copy_from_slice(&sum.to_be_bytes());
            frame.extend_from_slice(&of.ports[0].to_be_bytes());
            frame.extend_from_slice(&of.ports[1].to_be_bytes());
            frame.extend_from_slice(&[0, 80, 0, 0]);
        }
        let depth = if self.varies_depth { random.next() % (self.others as u64 + 1) } else { u64::MAX };
        for other in 0..self.others as u64 {
            frame.extend_from_slice(&[u8::from(other < depth), random.next() as u8]);
            frame.extend_from_slice(&random.next().to_be_bytes()[..6]);
            frame.extend_from_slice(&random.next().to_be_bytes());
        }
        let length = self.frame_bytes.max(frame.len());
        frame.resize(length, 0);
        frame
    }
}

/// Addresses and ports of a packet that the rule with this number may match.
struct FiveTuple {
    src: u32,
    dst: u32,
    ports: [u16; 2],
}

impl FiveTuple {
    fn of(number: u64, random: &mut Random) -> FiveTuple {
        let spread = key(64, number) as u64;
        FiveTuple {
            src: 0x0a00_0000 | (spread >> 8) as u32 & 0x00ff_ffff,
            dst: 0xc0a8_0000 | (spread >> 40) as u32 & 0xffff,
            ports: [random.next() as u16, [53, 80, 443, 8080][number as usize % 4]],
        }
    }
}

/// A rule for [`FiveTuple::of`] the same number: prefixes of both addresses, the protocol, ranges of ports.
fn five(number: u64, wild: u64, random: &mut Random) -> String {
    let of = FiveTuple::of(number, random);
    let prefix = |address: u32, bits: u32| {
        let mask = if bits == 0 { 0 } else { u32::MAX << (32 - bits) };
        format!("{:#x}&&&{mask:#x}", address & mask)
    };
    let mut pick = |list: [u32; 4]| list[(random.next() % 4) as usize];
    let (src, dst) = match wild {
        0 => ([32, 24, 16, 28][number as usize % 4], [32, 24, 32, 0][number as usize / 4 % 4]),
        1 => (pick([32, 24, 24, 16]), pick([32, 32, 24, 24])),
        2 => (pick([32, 24, 8, 0]), pick([32, 24, 16, 0])),
        _ => (pick([24, 16, 8, 0]), pick([32, 24, 0, 0])),
    };
    let low = pick([0, 0, 0, 1024]);
    let ports = match pick([0, 1, 1, 2]).min(wild as u32 + 1) {
        0 => "0->65535".to_string(),
        1 => format!("{0}->{0}", of.ports[1]),
        _ => format!("{}->{}", of.ports[1] & 0xfff0, of.ports[1] | 15),
    };
    format!("{} {} 17&&&0xff {low}->65535 {ports}", prefix(of.src, src), prefix(of.dst, dst))
}

/// Fills a shape with a random mixture of what the other points have.
fn mixture(s: &mut Shape, seed: u64) {
    let mut random = Random::new(0x6d69_7800 + seed);
    let mut below = |n: u64| (random.next() % n) as usize;
    s.others = below(8);
    s.selects = below(2) == 0;
    s.varies_depth = s.selects && below(2) == 0;
    s.with_ipv4 = below(3) > 0;
    s.verifies = s.with_ipv4 && below(2) == 0;
    s.updates = s.with_ipv4 && below(2) == 0;
    s.frame_bytes = [60, 60, 60, 60, 128, 256, 512, 1024, 1518][below(9)];
    s.packets = [8192, 16_384, 65_536][below(3)];
    s.keys = [16, 256, 1024, 1024, 4096, 4096, 16_384, 16_384, 65_536, 65_536, 65_536, 262_144][below(12)];
    s.is_skewed = below(3) == 0;
    s.unknown_every = [0, 0, 2, 8][below(4)];
    s.wild = below(4) as u64;
    if below(4) == 0 {
        s.short_every = [2, 4, 16][below(3)];
    }
    for number in 0..[0, 1, 1, 2, 2, 3, 4, 6, 10][below(9)] {
        let (kind, width) = [
            ("exact", 8),
            ("exact", 16),
            ("exact", 16),
            ("exact", 32),
            ("exact", 48),
            ("exact", 48),
            ("exact", 64),
            ("exact", 128),
            ("lpm", 32),
            ("lpm", 32),
            ("lpm", 128),
            ("ternary", 32),
            ("five", 0),
        ][below(13)];
        let classified = matches!(kind, "ternary" | "five");
        let entries = if classified { s.keys.min(4096) } else { s.keys / [1, 1, 2, 8][below(4)] };
        let entries = match width {
            8 => entries.min(256),
            16 => entries.min(65_536),
            _ => entries,
        };
        let apply = match below(8) {
            0 => "if ({}.apply().hit) { meta.w0 = meta.w0 + 1; } else { meta.w1 = meta.w1 ^ 0xff; }",
            1 => "if (hdr.ethernet.src[0:0] == 1) { {}.apply(); }",
            2 => "if (hdr.ethernet.isValid() && hdr.ethernet.dst != 0) { {}.apply(); }",
            _ => "{}.apply();",
        };
        s.table_applied(kind, width, entries.max(1), [1, 1, 2, 3, 5][below(5)], apply, below(5) == 0);
        if below(4) == 0 {
            s.ingress.push(format!("if (meta.m{} > 1) {{ meta.w0 = meta.w0 + {number}; }}", below(4)));
        }
    }
    let others = s.others;
    for _ in 0..below(7) {
        let header = if others > 0 { format!("hdr.o{}", below(others as u64)) } else { "hdr.o0".to_string() };
        let cells = [1024, 4096, 65_536, 1_048_576][below(4)];
        let index = match below(2) {
            0 => format!("(bit<32>) (hdr.ethernet.src[31:0] & {})", cells - 1),
            _ => format!("(meta.w0 & {})", cells - 1),
        };
        let statement = match below(14) {
            0 => format!("{header}.setInvalid();"),
            1 => "hdr.o8.setValid(); hdr.o8.a = 1; hdr.o8.b = meta.m0; hdr.o8.c = meta.w0; hdr.o8.d = 7;"
                .to_string(),
            2 => format!("{header}.d = {header}.d + 3; {header}.c = meta.w0;"),
            3 if s.with_ipv4 => "hdr.ipv4.ttl = hdr.ipv4.ttl - 1;".to_string(),
            4 if s.with_ipv4 => {
                "hdr.ipv4.src = hdr.ipv4.dst; hdr.ipv4.dst = meta.w0; hdr.udp.dst = meta.m1;".to_string()
            }
            5 => format!(
                "if ({header}.isValid() && {header}.a > 100) {{ meta.m2 = {header}.b; meta.w1 = {header}.c; }}"
            ),
            6 => format!("meta.w0 = meta.w1 + (({header}.c >> 3) ^ 0x55); meta.m3 = (bit<16>) meta.w0;"),
            7 => "bit<48> t = hdr.ethernet.src; hdr.ethernet.src = hdr.ethernet.dst; hdr.ethernet.dst = t;"
                .to_string(),
            8 => {
                s.declared.push(format!("counter({cells}, CounterType.packets) c{};", s.declared.len()));
                format!("c{}.count({index});", s.declared.len() - 1)
            }
            9 => {
                s.declared.push(format!("register<bit<32>>({cells}) r{};", s.declared.len()));
                let name = s.declared.len() - 1;
                format!("r{name}.read(meta.w1, {index}); r{name}.write({index}, meta.w1 + 1);")
            }
            10 => format!(
                "hash(meta.w0, HashAlgorithm.crc32, (bit<32>) 0, {{ hdr.ethernet.dst, {header}.c, {header}.d }}, (bit<32>) 65536);"
            ),
            11 => {
                s.declared.push(format!("meter({cells}, MeterType.packets) m{};", s.declared.len()));
                format!("m{}.execute_meter({index}, meta.m1);", s.declared.len() - 1)
            }
            12 => format!("random(meta.w1, (bit<32>) 0, (bit<32>) {});", cells - 1),
            _ => "hash(meta.w1, HashAlgorithm.crc16, (bit<32>) 0, { hdr.ethernet.src }, (bit<32>) 64);"
                .to_string(),
        };
        let statement = format!("{{ {statement} }}");
        match below(5) {
            0 if !statement.contains("(bit<32>) (hdr")
                && !statement.contains(".count(")
                && !statement.contains("_meter(")
                && !statement.contains(".read(") =>
            {
                s.egress.push(statement)
            }
            _ => s.ingress.push(statement),
        }
    }
    match below(10) {
        0 => s.ingress.push("if (hdr.ethernet.src[1:0] == 1) mark_to_drop(std);".to_string()),
        1 => {
            s.ingress.push("if (hdr.ethernet.src[2:0] == 1) { std.mcast_grp = 1; }".to_string());
            s.commands += "mc_mgrp_create 1\nmc_node_create 0 1 2 3\nmc_node_associate 1 0\n";
        }
        _ => {}
    }
}

/// The points, one after another: building one takes memory and time.
pub fn points(entries_max: u64) -> Vec<(String, Box<dyn FnOnce() -> Point>)> {
    let mut points: Vec<(String, Box<dyn FnOnce() -> Point>)> = Vec::new();
    let mut add = |name: String, make: Box<dyn FnOnce(&mut Shape)>| {
        points.push((name.clone(), Box::new(move || SHAPE.clone().with(make).point(name))));
    };
    for others in [0, 1, 2, 4, 6, 9, 12] {
        add(format!("parse {others}"), Box::new(move |s| s.others = others));
        add(
            format!("select {others}"),
            Box::new(move |s| (s.others, s.selects, s.with_ipv4) = (others, true, others % 2 == 0)),
        );
    }
    for bytes in [60, 128, 256, 384, 512, 640, 768, 1024, 1280, 1518] {
        add(format!("bytes {bytes}"), Box::new(move |s| (s.frame_bytes, s.packets) = (bytes, 256)));
    }
    for bytes in [60, 256, 768] {
        for mega in [1, 2, 4, 8, 32] {
            add(
                format!("bytes {bytes} of {mega} MiB"),
                Box::new(move |s| (s.frame_bytes, s.packets) = (bytes, (mega << 20) / bytes)),
            );
        }
    }
    for count in [1, 2, 4, 8] {
        add(
            format!("bytes written {count}"),
            Box::new(move |s| {
                s.others = 8;
                s.ingress.extend((0..count).map(|i| format!("hdr.o{i}.d = hdr.o{}.d + 1;", (i + 3) % 8)));
            }),
        );
        add(
            format!("fields written {count}"),
            Box::new(move |s| {
                s.others = 8;
                let write = |i| {
                    format!("hdr.o{i}.a = 5; hdr.o{i}.b = hdr.o{i}.b + 1; hdr.o{i}.c = (bit<32>) meta.m0;")
                };
                s.ingress.extend((0..count).map(write));
            }),
        );
        add(
            format!("arithmetic {count}"),
            Box::new(move |s| {
                (s.others, s.with_ipv4) = (4, true);
                let compute = |i| {
                    format!(
                        "meta.w0 = (hdr.ipv4.src ^ hdr.o{0}.c) + (meta.w1 << 3); meta.w1 = meta.w0 * hdr.ipv4.dst |-| hdr.o{0}.c; \
                         hdr.o{0}.c = meta.w1 & 0xffff00ff | meta.w0 >> 5;",
                        i % 4
                    )
                };
                s.ingress.extend((0..count).map(compute));
            }),
        );
        add(
            format!("headers removed {count}"),
            Box::new(move |s| {
                s.others = 8;
                s.ingress.extend((0..count).map(|i| format!("hdr.o{i}.setInvalid();")));
            }),
        );
        add(
            format!("headers added {count}"),
            Box::new(move |s| {
                (s.with_ipv4, s.others) = (true, 2);
                let set = |i| {
                    format!(
                        "hdr.o{i}.setValid(); hdr.o{i}.a = 1; hdr.o{i}.b = 2; hdr.o{i}.c = 3; hdr.o{i}.d = 4;"
                    )
                };
                s.ingress.extend((2..2 + count).map(set));
            }),
        );
        add(
            format!("headers copied {count}"),
            Box::new(move |s| {
                s.others = 8;
                s.ingress.extend((0..count.min(4)).map(|i| format!("hdr.o{i} = hdr.o{};", 7 - i)));
            }),
        );
        add(
            format!("conditions {count}"),
            Box::new(move |s| {
                s.others = 8;
                let test = |i| {
                    format!(
                        "if (hdr.o{i}.next == 1 && hdr.o{i}.isValid()) {{ meta.m{} = hdr.o{i}.b; hdr.o{i}.a = 3; }}",
                        i % 4
                    )
                };
                s.ingress.extend((0..count).map(test));
            }),
        );
        for (what, instance, call) in [
            (
                "counters",
                "counter(1024, CounterType.packets_and_bytes) c{};",
                "c{}.count((bit<32>) hdr.ethernet.src[9:0]);",
            ),
            (
                "registers",
                "register<bit<32>>(1024) c{};",
                "c{}.read(meta.w0, (bit<32>) hdr.ethernet.src[9:0]); c{}.write((bit<32>) hdr.ethernet.src[9:0], meta.w0 + 1);",
            ),
            (
                "meters",
                "meter(1024, MeterType.bytes) c{};",
                "c{}.execute_meter((bit<32>) hdr.ethernet.src[9:0], meta.m0);",
            ),
        ] {
            if count > 2 && what == "meters" {
                continue;
            }
            add(
                format!("{what} {count}"),
                Box::new(move |s| {
                    let numbered = |text: &str, i: usize| text.replace("{}", &i.to_string());
                    s.declared.extend((0..count).map(|i| numbered(instance, i)));
                    s.ingress.extend((0..count).map(|i| numbered(call, i)));
                }),
            );
        }
    }
    for (verifies, updates) in [(true, false), (false, true), (true, true)] {
        add(
            format!("checksum verified {verifies}, updated {updates}"),
            Box::new(move |s| {
                (s.with_ipv4, s.verifies, s.updates) = (true, verifies, updates);
                s.ingress.push("hdr.ipv4.ttl = hdr.ipv4.ttl - 1;".to_string());
            }),
        );
        add(
            format!("checksum of new header, verified {verifies}, updated {updates}"),
            Box::new(move |s| {
                (s.with_ipv4, s.verifies, s.updates, s.others) = (true, verifies, updates, 1);
                s.ingress.push("hdr.ipv4.src = hdr.o0.c; hdr.ipv4.dst = 0x0a000001; hdr.ipv4.id = hdr.o0.b; hdr.ipv4.ttl = 64;".to_string());
            }),
        );
    }
    for (name, statement) in [
        (
            "swapped",
            "bit<48> t = hdr.ethernet.src; hdr.ethernet.src = hdr.ethernet.dst; hdr.ethernet.dst = t;",
        ),
        ("written", "hdr.ethernet.src = hdr.ethernet.dst; hdr.ethernet.dst = 0x020000000001;"),
        ("half written", "hdr.ethernet.type = 0x800;"),
    ] {
        for packets in [256, 65_536] {
            add(
                format!("addresses {name}, {packets} packets"),
                Box::new(move |s| {
                    s.packets = packets;
                    s.ingress.push(format!("{{ {statement} }}"));
                }),
            );
            add(
                format!("addresses {name}, by a table, {packets} packets"),
                Box::new(move |s| {
                    (s.packets, s.keys) = (packets, 64);
                    s.table("exact", 48, 64, 1);
                    s.ingress.push(format!("if (meta.m0 < 9) {{ {statement} }}"));
                }),
            );
        }
    }
    for algorithm in ["crc16", "crc32", "csum16", "xor16", "identity"] {
        for words in [1, 2, 4] {
            add(
                format!("{algorithm} of {} bytes", 8 * words),
                Box::new(move |s| {
                    s.others = 4;
                    let data: Vec<String> = (0..words).map(|i| format!("hdr.o{i}.d")).collect();
                    s.ingress.push(format!(
                        "hash(meta.w0, HashAlgorithm.{algorithm}, (bit<32>) 0, {{ {} }}, (bit<32>) 65536); hdr.o0.c = meta.w0;",
                        data.join(", ")
                    ));
                }),
            );
        }
    }
    for tables in [1, 2, 4, 8, 12] {
        for (kind, width) in
            [("exact", 16), ("exact", 48), ("exact", 64), ("lpm", 32), ("lpm", 128), ("ternary", 32)]
        {
            if kind == "ternary" && tables > 4 {
                continue;
            }
            add(
                format!("{tables} tables, {kind} {width}"),
                Box::new(move |s| {
                    s.keys = 256;
                    (0..tables).for_each(|_| s.table(kind, width, 256, 1 + tables % 3));
                }),
            );
        }
    }
    for (kind, width) in [
        ("exact", 8),
        ("exact", 16),
        ("exact", 32),
        ("exact", 48),
        ("exact", 64),
        ("exact", 128),
        ("lpm", 32),
        ("lpm", 128),
        ("ternary", 32),
        ("ternary", 128),
        ("range", 32),
        ("five", 0),
    ] {
        let is_classified = matches!(kind, "ternary" | "range" | "five");
        for entries in [16, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576] {
            let most = match (kind, width) {
                (_, 8) => 16,
                (_, 16) => 65_536,
                _ if kind == "five" => 4096,
                _ if is_classified => 16_384,
                _ => entries_max,
            };
            if entries <= most && !(kind == "range" && entries > 4096) {
                add(
                    format!("{kind} {width}, {entries} entries"),
                    Box::new(move |s| {
                        (s.keys, s.packets) = (entries, 65_536);
                        s.table(kind, width, entries, 1);
                    }),
                );
            }
        }
    }
    for tables in [4, 8, 12] {
        for (kind, width) in [("exact", 32), ("exact", 48), ("exact", 64), ("lpm", 32)] {
            add(
                format!("{tables} tables of 1500 entries, {kind} {width}"),
                Box::new(move |s| {
                    (s.keys, s.packets) = (1500, 65_536);
                    (0..tables).for_each(|_| s.table(kind, width, 1500, 1));
                }),
            );
        }
    }
    for wild in [1, 2, 3] {
        for entries in [64, 512, 4096] {
            add(
                format!("five-tuples of wildness {wild}, {entries} rules"),
                Box::new(move |s| {
                    (s.keys, s.packets, s.wild) = (entries, 65_536, wild);
                    s.table("five", 0, entries, 1);
                }),
            );
        }
    }
    for cells in [1024, 65_536, 1_048_576, 8_388_608] {
        for (what, instance, call) in [
            ("counter", "counter(N, CounterType.packets) c;", "c.count(I);"),
            ("register", "register<bit<32>>(N) c;", "c.read(meta.w0, I); c.write(I, meta.w0 + 1);"),
            ("meter", "meter(N, MeterType.packets) c;", "c.execute_meter(I, meta.m0);"),
        ] {
            if what == "meter" && cells > 1 << 20 {
                continue;
            }
            add(
                format!("{what} of {cells} cells"),
                Box::new(move |s| {
                    s.packets = 65_536;
                    let index = format!("(bit<32>) (hdr.ethernet.src[31:0] & {})", cells - 1);
                    s.declared.push(instance.replace('N', &cells.to_string()));
                    s.ingress.push(call.replace('I', &index));
                }),
            );
        }
    }
    for members in [1, 4, 64] {
        for entries in [16, 1024, 65_536] {
            add(
                format!("groups of {members} members, {entries} entries"),
                Box::new(move |s| {
                    (s.keys, s.packets, s.with_x) = (entries, 65_536, true);
                    s.declared.push("action go(bit<9> port) { std.egress_spec = port; }".to_string());
                    s.declared
                        .push("action_selector(HashAlgorithm.crc16, 32w1024, 32w16) selector;".to_string());
                    s.declared.push(
                        "table t0 { key = { hdr.x.k64: exact; hdr.ethernet.src: selector; } actions = { go; NoAction; } \
                         default_action = NoAction(); size = 131072; implementation = selector; }"
                            .to_string(),
                    );
                    s.ingress.push("t0.apply();".to_string());
                    s.commands += "act_prof_create_group selector\n";
                    for member in 0..members {
                        let port = member % 4;
                        let _ = writeln!(
                            s.commands,
                            "act_prof_create_member selector go {port}\nact_prof_add_member_to_group selector {member} 0"
                        );
                    }
                    for number in 0..entries {
                        let _ = writeln!(
                            s.commands,
                            "table_indirect_add_with_group t0 {:#x} => 0",
                            key(64, number)
                        );
                    }
                }),
            );
        }
    }
    for bytes in [60, 512, 1500] {
        for copies in [1, 3] {
            add(
                format!("a quarter multicast to {copies}, {bytes} bytes"),
                Box::new(move |s| {
                    s.frame_bytes = bytes;
                    s.ingress.push("if (hdr.ethernet.src[1:0] == 1) { std.mcast_grp = 1; }".to_string());
                    let ports: Vec<String> = (1..=copies).map(|port: u32| port.to_string()).collect();
                    s.commands = format!(
                        "mc_mgrp_create 1\nmc_node_create 0 {}\nmc_node_associate 1 0\n",
                        ports.join(" ")
                    );
                }),
            );
        }
    }
    for packets in [64, 512, 4096, 32_768, 131_072] {
        add(
            format!("half of {packets} packets short"),
            Box::new(move |s| {
                (s.short_every, s.packets, s.others, s.with_ipv4) = (2, packets, 4, true);
                s.verifies = true;
            }),
        );
        for actions in [2, 4, 8] {
            add(
                format!("{actions} actions, {packets} packets"),
                Box::new(move |s| {
                    (s.keys, s.packets) = (256, packets);
                    s.table("exact", 48, 256, actions);
                }),
            );
        }
    }
    for every in [4, 16] {
        add(
            format!("one in {every} short"),
            Box::new(move |s| {
                (s.short_every, s.packets, s.others, s.with_ipv4) = (every, 65_536, 4, true);
            }),
        );
    }
    for seed in 0..150 {
        add(format!("mixture {seed}"), Box::new(move |s| mixture(s, seed)));
    }
    add("all dropped".to_string(), Box::new(|s| s.ingress.push("mark_to_drop(std);".to_string())));
    add(
        "half dropped".to_string(),
        Box::new(|s| s.ingress.push("if (hdr.ethernet.src[0:0] == 1) mark_to_drop(std);".to_string())),
    );
    add(
        "cloned".to_string(),
        Box::new(|s| {
            s.ingress.push("clone(CloneType.I2E, 5);".to_string());
            s.commands = "mirroring_add 5 2\n".to_string();
        }),
    );
    for copies in [2, 4] {
        add(
            format!("multicast {copies}"),
            Box::new(move |s| {
                s.ingress.push("std.mcast_grp = 1;".to_string());
                let ports: Vec<String> = (1..=copies).map(|port: u32| port.to_string()).collect();
                s.commands = format!(
                    "mc_mgrp_create 1\nmc_node_create 0 {}\nmc_node_associate 1 0\n",
                    ports.join(" ")
                );
            }),
        );
    }
    points
}
