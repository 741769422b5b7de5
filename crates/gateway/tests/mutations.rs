//! Mutated configurations and mutated dumps of a switch: every text has an answer that names a place and a reason, and
//! none causes a panic. A text that is still a configuration becomes commands, after which nothing is left to do.
//!
//! A case is identified by its number: `CASE=config:1234 cargo test -p p4jet-gateway --test all mutations::` runs it alone and
//! shows its text.
//!
//! Blind spots: texts that differ from the seeds by more than a few edits; whether an answer is correct.

use crate::common;
use crate::mutate::{Random, Vocabulary, mutate};
use p4jet_gateway::{Actual, Complaint, Config, Objects, Plan, commands, diff, plan, render, summary};
use std::sync::LazyLock;

const GATEWAY: &str = include_str!("../../../programs/vxlan_gateway/gateway.toml");
const ERRORS: &str = include_str!("errors.txt");
/// The output of `p4jet ctl dump` for a switch configured by [`GATEWAY`], with pools of 8 slots.
const DUMP: &str = include_str!("dump.txt");

static OBJECTS: LazyLock<Objects> = LazyLock::new(common::objects);

static WORDS: Vocabulary = Vocabulary {
    spices: &[
        "\"",
        "'",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        "#",
        "-1",
        "0",
        "4294967296",
        "9223372036854775808",
        "1e9",
        "nan",
        "true",
        "false",
        "\"\"\"",
        "\\",
        "é",
        "\u{0}",
        "\r",
        "255.255.255.255",
        "::",
        "/0",
        "/129",
        "null",
        "1979-05-27",
    ],
    kinds: &[&["vtep", "network", "underlay", "external", "tenant"], &["tcp", "udp", "http"]],
    keywords: &[],
    line_end: "",
};

const CASES: u64 = if cfg!(debug_assertions) { 500 } else { 4_000 };

/// Tries a text; false if it is refused.
type Target = fn(&str) -> bool;

const TARGETS: [(&str, Target); 2] = [("config", config), ("dump", dump)];

/// Tries a text as a configuration.
fn config(text: &str) -> bool {
    match Config::parse(text) {
        Ok(config) => {
            // A pool without live back ends, with some, and with all.
            for alive in [0u32, 0b101, u32::MAX] {
                let alive = |at: usize| alive >> (at % 32) & 1 == 1;
                if let Ok(wanted) = plan(&config, &alive, &Actual::default()) {
                    check_texts(&wanted, &Actual::default());
                }
            }
            true
        }
        Err(complaints) => {
            assert!(!complaints.is_empty());
            complaints.iter().for_each(|complaint| is_clear(complaint, text));
            assert!(render(&complaints, "gateway.toml", text, false).contains("gateway.toml:"));
            false
        }
    }
}

/// Checks that it names a place in the file and describes the error in one line.
fn is_clear(complaint: &Complaint, text: &str) {
    let Complaint { message, span, notes, .. } = complaint;
    assert!(span.start <= span.end && span.end <= text.len(), "a place beyond the file: {complaint:?}");
    for said in notes.iter().chain([message]) {
        assert!(!said.is_empty() && !said.contains(['\n', '\r']), "not a line: {complaint:?}");
        for inner in ["i64", "Spanned", "struct", "serde", "$__"] {
            assert!(
                !said.contains(inner) || text.contains(inner),
                "`{inner}` means nothing to a user: {said}"
            );
        }
    }
    let line = complaint.line("gateway.toml", text);
    assert!(line.starts_with("gateway.toml:") && !line.contains('\n'), "{line}");
}

fn check_texts(wanted: &Plan, actual: &Actual) {
    let changes = diff(&OBJECTS, wanted, actual);
    assert_eq!(commands(&OBJECTS, &changes).lines().count(), changes.len());
    assert!(!summary(&changes).is_empty());
}

/// Tries a text as a dump of a switch for which there is a plan.
fn dump(text: &str) -> bool {
    match Actual::from_dump(&OBJECTS, text) {
        Ok(actual) => {
            let config = Config::parse(GATEWAY).unwrap();
            if let Ok(wanted) = plan(&config, &|at| at != 1, &actual) {
                check_texts(&wanted, &actual);
            }
            true
        }
        Err(why) => {
            assert!(!why.is_empty() && !why.contains('\n'), "{why:?}");
            false
        }
    }
}

#[test]
fn every_text_gets_an_answer() {
    let only = std::env::var("CASE").ok();
    for (name, target) in TARGETS {
        let seeds: Vec<&str> = match name {
            "dump" => vec![DUMP],
            _ => {
                let cases = ERRORS.split("#### ").filter_map(|case| case.split_once('\n'));
                cases.map(|(_, case)| case.split("----\n").next().unwrap()).chain([GATEWAY; 20]).collect()
            }
        };
        assert!(target(seeds[seeds.len() - 1]), "{name}: this one is right");
        let mut accepted = 0;
        for number in 0..CASES {
            let case = format!("{name}:{number}");
            if only.as_ref().is_some_and(|only| *only != case) {
                continue;
            }
            let mut random = Random::from_number(number);
            let (seed, other) = (random.pick(&seeds), random.pick(&seeds));
            let text = mutate(&mut random, seed, other, &WORDS);
            if only.is_some() {
                println!("{text}");
            }
            let answer = std::panic::catch_unwind(|| target(&text));
            accepted += u64::from(answer.unwrap_or_else(|_| panic!("CASE={case}")));
        }
        let range = CASES / 100..CASES * 99 / 100;
        assert!(only.is_some() || range.contains(&accepted), "{name}: {accepted} of {CASES} were accepted");
    }
}
