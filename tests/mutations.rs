//! Ten thousand mutated copies of the shipped programs through the compiler, down to machine code. Whatever the text, there
//! is an answer, soon: no panic, no invalid IR, no silent refusal. What still compiles forwards packets on both
//! engines, which must agree.
//!
//! The seed of a case is its number, so that it can be repeated alone: `CASE=1234 cargo test --release -p p4jet-cli --test
//! mutations`. A case that kills the process (stack, memory) is the one whose number stands in the file `mutations.case`
//! in the target folder for tests; one that does not end in time aborts the process with its text on standard error.
//!
//! Blind spots: programs that differ from the shipped ones by more than a few edits; deep structure (crates/syntax has
//! tests for that); what the packets below do not reach.

mod common;

use common::chain::{Outcome, compile};
use common::{Random, TempDir, run, workload};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Without optimisation a case takes about ten times as long.
const CASES: u64 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };
const CASES_BY_BINARY: u64 = 50;
/// Of processor time: a machine that is busy with other things makes no case wrong.
const CASE_TIME_MAX: Duration = Duration::from_secs(2);
/// For a case that waits instead of working, and for a whole process.
const CASE_WAIT_MAX: Duration = Duration::from_secs(20);
/// The stack of the binary's main thread.
const STACK_BYTES: usize = 8 << 20;
/// Distinct panics to report.
const REPORTED_MAX: usize = 10;

struct Seed {
    name: String,
    text: String,
    words: Vec<String>,
    /// The program's entries.cmd.
    entries: String,
    /// Packets of its packet tests.
    frames: Vec<Vec<u8>>,
}

fn seeds() -> Vec<Seed> {
    let seed = |folder: &Path| {
        let name = common::stem(folder);
        // Without comments: a mutation there changes nothing.
        let text = without_comments(&fs::read_to_string(common::program(&name)).unwrap());
        let scripts = common::stf_files(folder).into_iter().map(|f| fs::read_to_string(f).unwrap());
        Seed {
            words: pieces(&text),
            text,
            entries: fs::read_to_string(folder.join("entries.cmd")).unwrap(),
            frames: scripts.flat_map(|s| common::stf_packets(&s)).map(|(_, frame)| frame).collect(),
            name,
        }
    };
    common::program_folders().iter().map(|folder| seed(folder)).collect()
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(l).trim_end()).filter(|l| !l.is_empty());
    lines.map(|l| format!("{l}\n")).collect()
}

/// Types with a width, words, numbers, blanks and single other characters.
fn pieces(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut length =
            if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        if matches!(&rest[..length], "bit" | "varbit") {
            length = rest.find('>').map_or(length, |end| end + 1);
        }
        if OPERATORS.iter().any(|o| rest.starts_with(o)) {
            length = 2;
        }
        let (piece, after) = rest.split_at(length);
        pieces.push(piece.to_string());
        rest = after;
    }
    pieces
}

const OPERATORS: &[&str] = &["==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "++"];

fn is_word(piece: &str) -> bool {
    piece.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn range(random: &mut Random, length: usize, longest: usize) -> Range<usize> {
    let start = random.below(length + 1);
    start..(start + random.below(longest + 1)).min(length)
}

/// Words that change what a program means more often than others do.
const SPICES: &[&str] = &[
    "0",
    "1",
    "8",
    "63",
    "64",
    "65",
    "128",
    "129",
    "2048",
    "4294967295",
    "18446744073709551616",
    "0x0",
    "8w255",
    "8s127",
    "-1",
    "<<",
    ">>",
    "++",
    "|+|",
    "|-|",
    "&&&",
    "..",
    "_",
    "==",
    "!=",
    "?",
    "[0]",
    "[7:0]",
    "bit",
    "int",
    "bool",
    "varbit",
    "error",
    "in",
    "out",
    "inout",
    "return",
    "exit",
    "accept",
    "reject",
    "default",
    "true",
    "false",
    "exact",
    "lpm",
    "ternary",
    "range",
    "optional",
    "setValid()",
    "setInvalid()",
    "isValid()",
    "valid",
    "const",
    "apply",
    "action",
    "table",
    "control",
    "parser",
    "header",
    "struct",
    "size",
    "entries",
    "@name(\"x\")",
    "this",
    "{",
    "}",
    "(",
    ")",
    ";",
    "{#}",
    "...",
    "mark_to_drop(standard_metadata)",
    "transition",
    "select",
    "start",
];

/// Replaces, deletes, doubles, moves or swaps some words, or puts others in.
fn mutate_words(random: &mut Random, words: &mut Vec<String>, others: &[String]) {
    for _ in 0..1 + random.below(3) {
        if words.is_empty() {
            return;
        }
        let range = range(random, words.len(), 12);
        let to = random.below(words.len() + 1);
        match random.below(9) {
            // One word by another of the same program: most of these still parse.
            0..=2 => {
                let positions: Vec<usize> = (0..words.len()).filter(|&i| is_word(&words[i])).collect();
                if positions.is_empty() {
                    return;
                }
                let (at, from) =
                    (positions[random.below(positions.len())], positions[random.below(positions.len())]);
                words[at] = words[from].clone();
            }
            3 => {
                let at = random.below(words.len());
                words[at] = SPICES[random.below(SPICES.len())].to_string();
            }
            4 => {
                let spice = SPICES[random.below(SPICES.len())].to_string();
                words.insert(to, spice);
            }
            5 => drop(words.drain(range)),
            6 => {
                let copy = words[range].to_vec();
                words.splice(to..to, copy);
            }
            7 if range.end > range.start => words.swap(range.start, range.end - 1),
            _ => {
                let from = self::range(random, others.len(), 12);
                words.splice(to..to, others[from].to_vec());
            }
        }
    }
}

fn mutate_bytes(random: &mut Random, bytes: &mut Vec<u8>, others: &[u8]) {
    for _ in 0..1 + random.below(4) {
        let range = range(random, bytes.len(), 40);
        let to = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => drop(bytes.drain(range)),
            1 => {
                let copy = bytes[range].to_vec();
                bytes.splice(to..to, copy);
            }
            2 if range.end > range.start => bytes.swap(range.start, range.end - 1),
            3 => {
                let from = self::range(random, others.len(), 40);
                bytes.splice(to..to, others[from].to_vec());
            }
            4 if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            _ => bytes.truncate(bytes.len() - random.below(bytes.len() / 4 + 1)),
        }
    }
}

/// Deletes, doubles or swaps lines; if `gentle`, only such as hold one whole statement or declaration.
fn mutate_lines(random: &mut Random, text: &str, gentle: bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for _ in 0..1 + random.below(if gentle { 2 } else { 4 }) {
        let whole = |l: &str| {
            l.ends_with(';') && !l.contains('}') && l.matches('(').count() == l.matches(')').count()
        };
        let places: Vec<usize> = (0..lines.len()).filter(|&i| !gentle || whole(lines[i])).collect();
        let (from, to) = (places[random.below(places.len())], places[random.below(places.len())]);
        match random.below(3) {
            0 => lines.swap(from, to),
            1 => drop(lines.remove(from)),
            _ => lines.insert(to, lines[from]),
        }
    }
    lines.join("\n")
}

/// Words that can stand for each other as far as the grammar goes.
const KINDS: &[&[&str]] = &[
    &[
        "+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "++", "|+|", "|-|", "==", "!=", "<", "<=", ">",
        ">=", "&&", "||",
    ],
    &[
        "bit<1>",
        "bit<8>",
        "bit<16>",
        "bit<9>",
        "bit<64>",
        "bit<65>",
        "bit<128>",
        "int<16>",
        "int",
        "bool",
        "varbit<320>",
    ],
    &["exact", "lpm", "ternary", "range", "optional"],
    &["in", "out", "inout"],
    &["true", "false"],
    &["isValid", "setValid", "setInvalid", "apply", "extract", "emit", "lookahead", "advance", "length"],
    &["bit<8>", "bit<16>", "bit<32>", "bit<48>"],
];

const KEYWORDS: &[&str] = &[
    "action",
    "actions",
    "apply",
    "bool",
    "const",
    "control",
    "default",
    "default_action",
    "else",
    "entries",
    "error",
    "exit",
    "false",
    "header",
    "if",
    "in",
    "include",
    "inout",
    "int",
    "key",
    "out",
    "parser",
    "return",
    "select",
    "size",
    "state",
    "struct",
    "switch",
    "table",
    "transition",
    "true",
    "tuple",
    "typedef",
    "void",
];

/// A change after which most programs still parse: a word by another of the same sort, a number by an odd one, a
/// statement gone, doubled or elsewhere.
fn mutate_gently(random: &mut Random, seed: &Seed) -> String {
    const NUMBERS: &[&str] =
        &["0", "1", "2", "7", "31", "32", "33", "64", "65", "255", "256", "511", "65536", "8w255", "8s127"];
    if random.below(3) == 0 {
        return mutate_lines(random, &seed.text, true);
    }
    let mut words = seed.words.clone();
    for _ in 0..1 + random.below(2) {
        let starts = |w: &str, digit: bool| w.chars().next().is_some_and(|c| c.is_ascii_digit() == digit);
        let is_number = |w: &String| is_word(w) && starts(w, true);
        let is_name = |w: &String| is_word(w) && starts(w, false) && !KEYWORDS.contains(&w.as_str());
        let pick = |random: &mut Random, words: &[String], wanted: &dyn Fn(&String) -> bool| {
            let places: Vec<usize> = (0..words.len()).filter(|&i| wanted(&words[i])).collect();
            (!places.is_empty()).then(|| places[random.below(places.len())])
        };
        match random.below(3) {
            0 => {
                let (at, from) = (pick(random, &words, &is_name), pick(random, &words, &is_name));
                if let (Some(at), Some(from)) = (at, from) {
                    words[at] = words[from].clone();
                }
            }
            1 => {
                if let Some(at) = pick(random, &words, &is_number) {
                    words[at] = NUMBERS[random.below(NUMBERS.len())].to_string();
                }
            }
            _ => {
                let kind = KINDS[random.below(KINDS.len())];
                if let Some(at) = pick(random, &words, &|w| kind.contains(&w.as_str())) {
                    words[at] = kind[random.below(kind.len())].to_string();
                }
            }
        }
    }
    words.concat()
}

/// One of so many cases is tried with its program's entries.
const ENTRIES_EVERY: u64 = 5;
/// Packets that a case is tried with, of those its program has.
const FRAMES_EACH: usize = 12;

/// The text of a case, and the program that it was.
fn case(number: u64, seeds: &[Seed]) -> (&Seed, String) {
    // Neighbouring seeds must not give neighbouring numbers.
    let mut random = Random((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.next();
    let (seed, other) = (&seeds[random.below(seeds.len())], &seeds[random.below(seeds.len())]);
    let text = match random.below(10) {
        0..=5 => mutate_gently(&mut random, seed),
        6..=7 => {
            let mut words = seed.words.clone();
            mutate_words(&mut random, &mut words, &other.words);
            words.concat()
        }
        8 => mutate_lines(&mut random, &seed.text, false),
        _ => {
            let mut bytes = seed.text.clone().into_bytes();
            mutate_bytes(&mut random, &mut bytes, other.text.as_bytes());
            String::from_utf8_lossy(&bytes).into_owned()
        }
    };
    (seed, text)
}

/// A few packets that meet most of what the programs do.
fn frames() -> Vec<Vec<u8>> {
    let udp = |ttl, to: u32| {
        workload::udp_frame(workload::mac(1), workload::mac(2), 0xc000_0201.into(), to.into(), ttl, 1000, 60)
    };
    let mut options = udp(64, 0x0a00_0001);
    options[14] = 0x47;
    let mut ipv6 = udp(64, 0);
    ipv6[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 6, 17, 64]);
    let mut short = udp(64, 0x0a00_0001);
    short.truncate(30);
    vec![udp(64, 0x0a00_0001), udp(1, 0x0a00_0001), options, ipv6, short, vec![0; 14], vec![7]]
}

/// Both engines must say the same of every packet, and both switches of every runtime command.
fn compare(reference: &Arc<Switch>, optimised: &Arc<Switch>, entries: &str, frames: &[&Vec<u8>]) {
    let mut controls = [reference, optimised].map(|switch| Control::new(switch.clone()));
    // What no longer fits the program is refused.
    for line in entries.lines() {
        let [a, b] = controls.each_mut().map(|control| control.execute(line));
        assert!(a == b, "`{line}` gives {a:?} and {b:?}");
    }
    let workers = (reference.worker(EngineKind::Interp), optimised.worker(EngineKind::Jit));
    let (Ok(mut reference), Ok(mut optimised)) = workers else { return };
    for (i, frame) in frames.iter().enumerate() {
        let port = i as u32 % 3;
        let results: [Processed; 2] =
            [reference.process_one(port, frame), optimised.process_one(port, frame)];
        assert!(
            results[0] == results[1],
            "the engines differ on packet {}\n  interpreter: {:?}\n  machine code: {:?}",
            common::to_hex(frame),
            results[0],
            results[1]
        );
    }
}

/// What runs now, for the watchdog.
struct Current {
    number: u64,
    text: String,
    start: Instant,
}

type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processor time of this process.
fn processor_time() -> Duration {
    // proc(5): utime and stime are fields 14 and 15, the third being the first after the name; 100 ticks a second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Ends the process when a case takes too long: nothing else can stop it.
fn watch(current: &Shared<Option<Current>>) {
    let current = current.clone();
    thread::spawn(move || {
        // The case seen last, and the processor time when it was seen first.
        let mut seen = (u64::MAX, Duration::ZERO);
        loop {
            thread::sleep(Duration::from_millis(100));
            let Some(Current { number, text, start }) = &*lock(&current) else { continue };
            if seen.0 != *number {
                seen = (*number, processor_time());
            }
            if processor_time() - seen.1 > CASE_TIME_MAX || start.elapsed() > CASE_WAIT_MAX {
                eprintln!("case {number} does not end:\n{text}\ncase {number}: too slow");
                std::process::abort();
            }
        }
    });
}

#[test]
fn mutated_programs_get_an_answer() {
    let only: Option<u64> = std::env::var("CASE").ok().map(|n| n.parse().expect("CASE is a number"));
    let current: Shared<Option<Current>> = Arc::default();
    watch(&current);
    let panic_place: Shared<String> = Arc::default();
    let (hook_place, said) = (panic_place.clone(), panic_place.clone());
    // Silent: ten thousand cases may say a lot. Compiler stages may run on threads of their own.
    let (usual_hook, main_test) = (std::panic::take_hook(), thread::current().id());
    std::panic::set_hook(Box::new(move |info| {
        // The tests themselves, this one and the other, speak as ever.
        let name = thread::current().name().map(str::to_string);
        if thread::current().id() == main_test || name.as_deref() == Some("the_binary_answers_too") {
            return usual_hook(info);
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        *lock(&hook_place) = format!("{place}: {message}");
    }));
    let work = move || {
        let seeds = seeds();
        let frames = frames();
        let mut progress =
            fs::File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("mutations.case")).unwrap();
        let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
        // By place, so that one bug is told once.
        let mut panics: BTreeMap<String, (u64, usize, String)> = BTreeMap::new();
        let mut slowest = (Duration::ZERO, 0);
        let numbers = only.map_or(0..CASES, |n| n..n + 1);
        for number in numbers {
            let (seed, text) = case(number, &seeds);
            progress.seek(SeekFrom::Start(0)).and_then(|_| writeln!(progress, "{number:<10}")).unwrap();
            let start = Instant::now();
            *lock(&current) = Some(Current { number, text: text.clone(), start });
            let result =
                catch_unwind(AssertUnwindSafe(|| match compile(&format!("{}.p4", seed.name), &text) {
                    Outcome::Refused(stage, why) => {
                        if only.is_some() {
                            println!("refused by {stage}:\n{why}");
                        }
                        stage
                    }
                    Outcome::Compiled { reference, optimised } => {
                        let own = (0..FRAMES_EACH)
                            .map(|i| &seed.frames[(number as usize * 7 + i * 5) % seed.frames.len()]);
                        let all: Vec<&Vec<u8>> = frames.iter().chain(own).collect();
                        // Routes take much memory, and so time.
                        let entries = if number % ENTRIES_EVERY == 0 { &seed.entries[..] } else { "" };
                        compare(&reference, &optimised, entries, &all);
                        "machine code made"
                    }
                }));
            *lock(&current) = None;
            slowest = slowest.max((start.elapsed(), number));
            match result {
                Ok(stage) => *outcomes.entry(stage).or_default() += 1,
                Err(_) => {
                    let what = std::mem::take(&mut *lock(&panic_place));
                    let place = what.split(": ").next().unwrap_or_default().to_string();
                    panics.entry(place).or_insert((number, 0, what)).1 += 1;
                }
            }
        }
        (outcomes, panics, slowest)
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap();
    let (outcomes, panics, slowest) = thread.join().unwrap_or_else(|_| panic!("{}", lock(&said)));
    println!("{outcomes:?}; slowest: case {} with {:?}", slowest.1, slowest.0);
    let report: Vec<String> = panics
        .values()
        .take(REPORTED_MAX)
        .map(|(number, count, what)| format!("CASE={number} (and {} more): {what}", count - 1))
        .collect();
    assert!(report.is_empty(), "{} kinds of panic:\n{}", panics.len(), report.join("\n"));
    if only.is_none() {
        let compiled = outcomes.get("machine code made").copied().unwrap_or(0);
        assert!(
            compiled > CASES / 20,
            "only {compiled} cases reached machine code: the mutations are too wild"
        );
        assert!(outcomes.len() > 2, "too few stages were reached");
    }
}

/// A few through the binary, which adds reading the file and printing.
#[test]
fn the_binary_answers_too() {
    let dir = TempDir::new("mutations");
    let seeds = seeds();
    for number in CASES..CASES + CASES_BY_BINARY {
        let (seed, text) = case(number, &seeds);
        let path = dir.write(&format!("{}.p4", seed.name), &text);
        let start = Instant::now();
        let output = run(&["check", &path]);
        assert!(start.elapsed() < CASE_WAIT_MAX, "case {number} takes {:?}", start.elapsed());
        match output.status {
            0 => assert_eq!(output.stdout, "", "case {number}"),
            1 => assert!(output.stderr.contains("error"), "case {number}: {}", output.stderr),
            status => panic!("case {number}: exit status {status}\n{}", output.stderr),
        }
    }
}
