//! Passes preserve the results for packets, and their output is valid.

use crate::common;

use p4jet_ir::{passes, random, text, verify};

#[test]
fn passes_keep_the_outcome() {
    let mut copies = 0;
    for seed in 0..300 {
        let program = random::program(seed);
        let frames: Vec<Vec<u8>> = (0..12).map(|i| random::packet(1000 * seed + i, &program)).collect();
        let tables = p4jet_interp::build_tables(&program).unwrap();
        let expected = common::all_outcomes(&program, &tables, &frames);
        copies += expected.iter().map(|outcomes| outcomes.len() - 1).sum::<usize>();
        let mut passed = program.clone();
        for (name, pass) in passes::PASSES {
            let before = passed.clone();
            pass(&mut passed);
            if let Err(errors) = verify::verify(&passed) {
                panic!("seed {seed}, {name}: {}\nbefore\n{}", errors[0], text::print(&before));
            }
            let found = common::all_outcomes(&passed, &tables, &frames);
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert_eq!(
                    found,
                    expected,
                    "seed {seed}, {name}, packet {index}\nbefore\n{}\nafter\n{}",
                    text::print(&before),
                    text::print(&passed)
                );
            }
        }
    }
    assert!(copies > 500, "{copies} copies");
}

#[test]
fn random_packets_do_various_things() {
    let (mut sent, mut dropped, mut hits, mut misses, mut too_short, mut extracts) = (0, 0, 0, 0, 0, 0);
    for seed in 0..100 {
        let program = random::program(seed);
        let frames: Vec<Vec<u8>> = (0..10).map(|i| random::packet(1000 * seed + i, &program)).collect();
        for (outcome, trace) in common::run_traced(&program, &frames) {
            match outcome {
                p4jet_interp::Outcome::Sent { .. } => sent += 1,
                p4jet_interp::Outcome::Dropped { .. } => dropped += 1,
                p4jet_interp::Outcome::Done => {}
            }
            for event in &trace.events {
                use p4jet_interp::{Matched, TraceEvent};
                match event {
                    TraceEvent::Apply { matched: Matched::Hit { .. }, .. } => hits += 1,
                    TraceEvent::Apply { matched: Matched::Miss { .. }, .. } => misses += 1,
                    TraceEvent::TooShort { .. } => too_short += 1,
                    TraceEvent::Extract { .. } => extracts += 1,
                    _ => {}
                }
            }
            assert!(!trace.render(&program).is_empty());
            assert!(trace.to_json(&program).is_array());
        }
    }
    let all = format!("{sent} {dropped} {hits} {misses} {too_short} {extracts}");
    assert!(
        sent > 500 && dropped > 20 && hits > 100 && misses > 100 && too_short > 30 && extracts > 500,
        "{all}"
    );
    println!("{all}");
}
