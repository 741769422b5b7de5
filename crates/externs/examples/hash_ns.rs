//! Measures the cost of a call of a hash function. Prints nanoseconds per call, the best of several rounds, for an
//! IPv4 header without options, one with options in a maximum-width argument, and arguments that are not on byte
//! boundaries; each also in pieces with lengths.
//!
//! `cargo run --release -p p4jet-externs --example hash_ns`

use p4jet_externs::{CallSite, State, limb_count};
use p4jet_ir::{Algorithm, Function};
use std::hint::black_box;
use std::time::Instant;

const CALLS: u32 = 100_000;
const ROUNDS: usize = 15;

fn main() {
    let state = State::new(&[], 1).expect("no instances");
    let mut env = state.env(0);
    let plain = vec![4, 4, 8, 16, 16, 3, 13, 8, 8, 32, 32];
    let options = [plain.as_slice(), &[320]].concat();
    let odd = vec![9, 128, 20, 48, 1, 63, 128];
    let cases = [("IPv4", plain), ("IPv4 with options", options), ("odd widths", odd)];
    use Algorithm::{Crc16, Crc16Custom, Crc32, Csum16, Xor16};
    let hashes = [Csum16, Crc16, Crc32, Crc16Custom, Xor16].map(Algorithm::plain);
    let forms = hashes.map(|hash| [hash, hash.in_pieces()]);
    for (what, widths) in cases {
        for hash in forms.as_flattened() {
            let arg_widths: Vec<u32> = match hash.pieces {
                true => widths.iter().flat_map(|width| [32, *width]).collect(),
                false => widths.clone(),
            };
            let function = Function::Hash(*hash);
            let name = function.to_string();
            let site = CallSite::new(function, None, arg_widths, vec![32], vec![])
                .expect("it is no foreign function");
            let args = arguments(&widths, hash.pieces);
            let mut out = [0];
            let mut best_ns = f64::INFINITY;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for _ in 0..CALLS {
                    black_box(&site).call(&mut env, black_box(&args), &mut out);
                    black_box(&out);
                }
                best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
            }
            println!("{what:18} {name:19} {best_ns:7.1} ns, result {:#x}", out[0]);
        }
    }
}

/// Values that fill their widths, preceded by their width if `in_pieces`.
fn arguments(widths: &[u32], in_pieces: bool) -> Vec<u64> {
    let mut limbs = Vec::new();
    for width in widths {
        limbs.extend(in_pieces.then_some(u64::from(*width)));
        let end = limbs.len() + limb_count(*width);
        limbs.resize(end, 0x9e37_79b9_7f4a_7c15);
        if width % 64 != 0 {
            limbs[end - 1] &= (1 << (width % 64)) - 1;
        }
    }
    limbs
}
