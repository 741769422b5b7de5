//! Connects libFuzzer, which handles bytes, with the targets, which handle text.

#[path = "../../tests/common/chain.rs"]
mod chain;
#[path = "../../tests/common/mutate.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod mutate;
#[path = "../../tests/common/targets.rs"]
#[allow(dead_code, reason = "tests use the rest")]
pub mod targets;

pub use libfuzzer_sys;

use mutate::Random;
use std::time::Duration;
use targets::Target;

/// Maximum processor time for one input, in a build with coverage counters and overflow checks.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Runs one input.
pub fn run(target: &Target, data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let start = processor_time();
    (target.run)(&text);
    let spent = processor_time() - start;
    assert!(spent < TIME_MAX, "{} bytes took {spent:?} of processor time", data.len());
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    // proc(5): utime and stime are fields 14 and 15, and the first one after the name is the third; 100 ticks per
    // second.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Edits an input of `size` bytes in place; returns its new size.
pub fn edit(target: &Target, data: &mut [u8], size: usize, size_max: usize, seed: u32) -> usize {
    let mut random = Random::from_number(seed.into());
    if random.below(8) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, size_max);
    }
    let text = String::from_utf8_lossy(&data[..size]).into_owned();
    put(&mutate::mutate(&mut random, &text, &text, target.vocabulary), data, size_max)
}

/// Combines two inputs; returns the size of the result.
pub fn cross(a: &[u8], b: &[u8], out: &mut [u8], seed: u32) -> usize {
    let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
    let size_max = out.len();
    put(&mutate::splice(&mut Random::from_number(seed.into()), &a, &b), out, size_max)
}

fn put(text: &str, data: &mut [u8], size_max: usize) -> usize {
    let size = text.len().min(size_max);
    data[..size].copy_from_slice(&text.as_bytes()[..size]);
    size
}

/// The program of a target.
#[macro_export]
macro_rules! program {
    ($target:expr) => {
        use $crate::libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};
        fuzz_target!(|data: &[u8]| $crate::run(&$target, data));
        fuzz_mutator!(|data: &mut [u8], size: usize, size_max: usize, seed: u32| {
            $crate::edit(&$target, data, size, size_max, seed)
        });
        fuzz_crossover!(|a: &[u8], b: &[u8], out: &mut [u8], seed: u32| {
            $crate::cross(a, b, out, seed)
        });
    };
}
