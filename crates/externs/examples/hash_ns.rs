//! What does a call of a hash function cost? Nanoseconds a call, the best of several rounds, for an IPv4 header without
//! options, one whose options are an argument as wide as the largest, what v1model makes of such a header with a varbit, and
//! arguments that leave no other on a byte boundary.
//!
//! `cargo run --release -p p4jet-externs --example hash_ns`

use p4jet_externs::{CallSite, State, find, limb_count};
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
    let cases =
        [("IPv4", plain), ("IPv4 with options", options), ("with a varbit", vec![480]), ("odd widths", odd)];
    for (what, arg_widths) in cases {
        for name in ["csum16", "crc16", "crc32", "crc16_custom", "xor16"] {
            let def = find(name).expect("it is listed");
            let site = CallSite {
                def,
                instance: None,
                arg_widths: arg_widths.clone(),
                out_widths: vec![32],
                text: vec![],
            };
            let args = arguments(&arg_widths);
            let mut out = [0];
            let mut best_ns = f64::INFINITY;
            for _ in 0..ROUNDS {
                let start = Instant::now();
                for _ in 0..CALLS {
                    (def.call)(&mut env, black_box(&site), black_box(&args), &mut out);
                    black_box(&out);
                }
                best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
            }
            println!("{what:18} {name:13} {best_ns:7.1} ns, result {:#x}", out[0]);
        }
    }
}

/// Values that fill their widths.
fn arguments(widths: &[u32]) -> Vec<u64> {
    let mut limbs = Vec::new();
    for width in widths {
        let end = limbs.len() + limb_count(*width);
        limbs.resize(end, 0x9e37_79b9_7f4a_7c15);
        if width % 64 != 0 {
            limbs[end - 1] &= (1 << (width % 64)) - 1;
        }
    }
    limbs
}
