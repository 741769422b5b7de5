//! Compares hashes and checksums of data whose length depends on the packet with a model that concatenates bits.
//!
//! Every program hashes one random list with every algorithm: fields of headers that may be invalid, varbits, whole
//! headers, computed values, metadata, constants. Blind spot: with 16-bit algorithms a wrong bit may go unnoticed, but
//! every list is hashed by seven algorithms.

use crate::common::{lower, run};
use p4jet_ir::random::Rng;

const PROGRAMS: u64 = 40;

/// Bits, most significant first.
type Bits = Vec<bool>;

/// The contents of one packet.
struct Packet {
    first: u64,
    x: Option<[u64; 2]>,
    y: Option<u64>,
    /// A byte, and the bytes of a varbit.
    z: Option<(u64, Vec<u8>)>,
    payload: Vec<u8>,
}

/// A P4 expression, and the bits that it adds to the data.
type Item = (&'static str, fn(&Packet) -> Bits);

const ITEMS: [Item; 18] = [
    ("h.k.first", |p| bits(p.first, 11)),
    ("h.x.a", |p| p.x.map_or(vec![], |x| bits(x[0], 3))),
    ("h.x.b", |p| p.x.map_or(vec![], |x| bits(x[1], 13))),
    ("h.x", whole_x),
    ("h.y.a", whole_y),
    ("h.y", whole_y),
    ("h.z.a", |p| p.z.as_ref().map_or(vec![], |z| bits(z.0, 8))),
    ("h.z.v", varbit),
    ("h.z", |p| p.z.as_ref().map_or(vec![], |z| [bits(z.0, 8), varbit(p)].concat())),
    // Computed values always count.
    ("h.x.b + 1", |p| bits(p.x.map_or(0, |x| x[1]) + 1, 13)),
    ("h.y.a[20:3]", |p| bits(p.y.unwrap_or(0) >> 3, 18)),
    ("h.x.a ++ h.z.a", |p| {
        [bits(p.x.map_or(0, |x| x[0]), 3), bits(p.z.as_ref().map_or(0, |z| z.0), 8)].concat()
    }),
    ("(bit<7>) h.z.a", |p| bits(p.z.as_ref().map_or(0, |z| z.0), 7)),
    ("m.five", |_| bits(21, 5)),
    ("16w0xbeef", |_| bits(0xbeef, 16)),
    ("m.pair", |_| bits(0x2_ab, 10)),
    // The copy has its own validity.
    ("m.copy", whole_y),
    ("m.copy.a", whole_y),
];

fn whole_x(p: &Packet) -> Bits {
    p.x.map_or(vec![], |x| [bits(x[0], 3), bits(x[1], 13)].concat())
}

fn whole_y(p: &Packet) -> Bits {
    p.y.map_or(vec![], |y| bits(y, 24))
}

fn varbit(p: &Packet) -> Bits {
    p.z.iter().flat_map(|z| &z.1).flat_map(|byte| bits(u64::from(*byte), 8)).collect()
}

fn bits(value: u64, width: u32) -> Bits {
    (0..width).rev().map(|i| value >> i & 1 == 1).collect()
}

/// Pads to whole bytes with zeros.
fn bytes(bits: &Bits) -> Vec<u8> {
    let byte = |chunk: &[bool]| chunk.iter().zip((0..8).rev()).fold(0, |b, (bit, i)| b | u8::from(*bit) << i);
    bits.chunks(8).map(byte).collect()
}

/// A CRC of reversed bits, bit by bit.
fn crc(poly: u64, start: u64, bytes: &[u8]) -> u64 {
    let step = |r: u64| if r & 1 == 1 { r >> 1 ^ poly } else { r >> 1 };
    bytes.iter().fold(start, |r, byte| (0..8).fold(r ^ u64::from(*byte), |r, _| step(r)))
}

fn crc16(bytes: &[u8]) -> u64 {
    crc(0xa001, 0, bytes)
}

fn crc32(bytes: &[u8]) -> u64 {
    crc(0xedb8_8320, 0xffff_ffff, bytes) ^ 0xffff_ffff
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(w.get(1).copied().unwrap_or(0)))
}

fn csum16(bytes: &[u8]) -> u64 {
    !words(bytes).fold(0, |sum, word| (sum + word) % 0x1_0000 + (sum + word) / 0x1_0000) & 0xffff
}

fn xor16(bytes: &[u8]) -> u64 {
    words(bytes).fold(0, |x, word| x ^ word)
}

fn identity(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |x, byte| x << 8 | u64::from(*byte))
}

/// An algorithm's name and the algorithm.
type Algorithm = (&'static str, fn(&[u8]) -> u64);

const ALGORITHMS: [Algorithm; 7] = [
    ("crc32", crc32),
    ("crc32_custom", crc32),
    ("crc16", crc16),
    ("crc16_custom", crc16),
    ("csum16", csum16),
    ("xor16", xor16),
    ("identity", identity),
];

/// A condition of the checksums, and the function that evaluates it.
type Condition = (&'static str, fn(&Packet) -> bool);

const CONDITIONS: [Condition; 4] = [
    ("true", |_| true),
    ("h.x.isValid()", |p| p.x.is_some()),
    ("h.y.isValid() && h.k.isValid() && h.x.isValid()", |p| p.x.is_some() && p.y.is_some()),
    ("h.z.isValid() || h.x.isValid()", |p| p.x.is_some() || p.z.is_some()),
];

fn program(data: &str, condition: &str) -> String {
    let each = |f: &dyn Fn(&str) -> String| ALGORITHMS.map(|(name, _)| f(name)).concat();
    let results = each(&|name| format!("bit<64> h_{name}; bit<64> s_{name}; "));
    let hashes = each(&|name| {
        format!("hash(h.r.h_{name}, HashAlgorithm.{name}, 64w0, {data}, 128w0x10000000000000000);\n")
    });
    let sums = each(&|name| {
        let sum = "update_checksum_with_payload";
        format!("{sum}({condition}, {data}, h.r.s_{name}, HashAlgorithm.{name});\n")
    });
    format!(
        "#include <core.p4>
#include <v1model.p4>
header k_t {{ bit<2> pad; bit<1> x; bit<1> y; bit<1> z; bit<11> first; bit<8> length; }}
header x_t {{ bit<3> a; bit<13> b; }}
header y_t {{ bit<24> a; }}
header z_t {{ bit<8> a; varbit<72> v; }}
header r_t {{ {results} }}
struct pair_t {{ bit<2> a; bit<8> b; }}
struct headers_t {{ k_t k; x_t x; y_t y; z_t z; r_t r; }}
struct metadata_t {{ bit<5> five; pair_t pair; y_t copy; }}
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{
    state start {{ p.extract(h.k); transition select(h.k.x) {{ 1: x; _: no_x; }} }}
    state x {{ p.extract(h.x); transition no_x; }}
    state no_x {{ transition select(h.k.y) {{ 1: y; _: no_y; }} }}
    state y {{ p.extract(h.y); transition no_y; }}
    state no_y {{ transition select(h.k.z) {{ 1: z; _: accept; }} }}
    state z {{ p.extract(h.z, (bit<32>) h.k.length * 8); transition accept; }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{}} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{
    apply {{
        sm.egress_spec = 1;
        m.five = 21;
        m.pair = {{ 2, 0xab }};
        m.copy = h.y;
        h.r.setValid();
        {hashes}
    }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t sm) {{ apply {{}} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ {sums} }} }}
control D(packet_out p, in headers_t h) {{ apply {{ p.emit(h.r); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
",
    )
}

/// Returns the packet that has the headers in `present`, and its frame.
fn packet(rng: &mut Rng, present: usize) -> (Packet, Vec<u8>) {
    let mut number = |below: usize| rng.below(below) as u64;
    let first = number(1 << 11);
    let x = [number(1 << 3), number(1 << 13)];
    let y = number(1 << 24);
    let a = number(1 << 8);
    let length = number(10);
    let v: Vec<u8> = (0..length).map(|_| number(256) as u8).collect();
    let payload: Vec<u8> = (0..number(5)).map(|_| number(256) as u8).collect();
    let packet = Packet {
        first,
        x: (present & 1 != 0).then_some(x),
        y: (present & 2 != 0).then_some(y),
        z: (present & 4 != 0).then_some((a, v)),
        payload,
    };
    let flags = [packet.x.is_some(), packet.y.is_some(), packet.z.is_some()].to_vec();
    let key = bytes(&[vec![false; 2], flags, bits(first, 11), bits(length, 8)].concat());
    let z = packet.z.as_ref().map_or(vec![], |z| [bits(z.0, 8), varbit(&packet)].concat());
    let headers = bytes(&[whole_x(&packet), whole_y(&packet), z].concat());
    let frame = [key, headers, packet.payload.clone()].concat();
    (packet, frame)
}

#[test]
fn as_the_model() {
    for seed in 0..PROGRAMS {
        let mut rng = Rng::new(seed);
        let items: Vec<&Item> = (0..rng.range(1, 7)).map(|_| rng.pick(&ITEMS)).collect();
        let (condition, holds) = *rng.pick(&CONDITIONS);
        let list: Vec<&str> = items.iter().map(|(text, _)| *text).collect();
        let text = program(&format!("{{ {} }}", list.join(", ")), condition);
        let program = lower(&text);
        for present in 0..8 {
            let (packet, frame) = packet(&mut rng, present);
            let data = bytes(&items.iter().flat_map(|(_, bits)| bits(&packet)).collect());
            let mut expected = Vec::new();
            for (_, algorithm) in ALGORITHMS {
                let sum = match holds(&packet) {
                    true => algorithm(&[data.as_slice(), &packet.payload].concat()),
                    false => 0,
                };
                expected.extend([algorithm(&data), sum].map(u64::to_be_bytes).as_flattened());
            }
            expected.extend(&packet.payload);
            let found = run(&program, &frame).sent.pop();
            assert_eq!(found, Some((1, expected)), "seed {seed}, frame {frame:02x?}\n{text}");
        }
    }
}
