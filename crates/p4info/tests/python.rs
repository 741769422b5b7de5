//! Every message with random values, exchanged with Google's implementation, the `p4runtime` package of Python:
//!
//!     P4RUNTIME_PYTHON=/path/to/python cargo test -p p4jet-p4info --test all python:: -- --nocapture
//!
//! where that Python has `p4runtime>=1.6`, `protobuf<4` and `googleapis-common-protos<1.57`. It reads our binary, text and JSON and
//! compares its own binary with ours; we read its binary and write it again unchanged. It also compares its descriptors with ours,
//! but for options. Without the variable the test prints that it is skipped.
//!
//! The bytes are equal except for the order of fields in messages with a oneof whose numbers enclose that of another
//! field: Google writes fields in the order of their numbers, prost writes a oneof at its smallest number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use bytes::Bytes;
use p4jet_p4info::reflect::{Reflect, Value};
use p4jet_p4info::{Format, descriptors, proto};
use prost_reflect::prost::Message;

use crate::random::{DEPTH, Random, fill};

/// Messages in which prost and Google order fields differently.
const OTHER_ORDER: [&str; 2] = ["p4.config.v1.MatchField", "p4.v1.Replica"];

/// True if a message, or a message in it, is of a kind.
fn any(message: &dyn Reflect, is: &dyn Fn(&dyn Reflect) -> bool) -> bool {
    let mut found = is(message);
    message.visit(&mut |field| {
        if let Value::Message(inner) = field.value {
            found |= any(inner, is);
        }
    });
    found
}

#[test]
fn python_and_p4jet_read_each_other() {
    let Some(python) = std::env::var_os("P4RUNTIME_PYTHON") else {
        println!("SKIPPED: needs P4RUNTIME_PYTHON, a Python with the package p4runtime");
        return;
    };
    let mut random = Random(7);
    let mut lines = String::new();
    let hex = |bytes: Vec<u8>| bytes.iter().fold(String::new(), |s, b| s + &format!("{b:02x}"));
    for file in descriptors::files() {
        if file.name().starts_with("p4/") || file.name().starts_with("google/") {
            let _ = writeln!(lines, "file {}", hex(file.encode_to_vec()));
        }
    }
    let mut with_other_order = BTreeSet::new();
    for kind in 0..proto::all().len() {
        for _ in 0..20 {
            let mut message = proto::all().swap_remove(kind);
            let name = message.full_name();
            if name == "google.protobuf.Any" {
                continue;
            }
            fill(&mut *message, &mut random, DEPTH);
            let text = Format::Text.write(&*message);
            if any(&*message, &|m| OTHER_ORDER.contains(&m.full_name())) {
                with_other_order.insert(name);
            }
            // The JSON of `Any` has the fields of the message inside.
            let json = match any(&*message, &|m| m.full_name() == "google.protobuf.Any") {
                true => "-".to_string(),
                false => hex(Format::Json.write(&*message)),
            };
            let _ = writeln!(lines, "{name} {} {} {json}", hex(message.encode()), hex(text));
        }
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/p4runtime_messages.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("P4RUNTIME_PYTHON runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads everything");
    assert!(output.status.success(), "the script failed");

    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in String::from_utf8(output.stdout).expect("text").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let verdict = match words[..] {
            ["read", name, verdict] => {
                if !(verdict == "same" || verdict == "order" && with_other_order.contains(name)) {
                    wrong.push(line.to_string());
                }
                format!("Python reads ours: {verdict}")
            }
            ["file", _, verdict] => {
                if verdict != "same" {
                    wrong.push(line.to_string());
                }
                format!("descriptors: {verdict}")
            }
            ["message", name, hex] => {
                let digits: Vec<u8> = hex.bytes().filter(|b| *b != b'-').collect();
                let byte = |pair: &[u8]| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hex");
                let binary: Vec<u8> = digits.chunks(2).map(byte).collect();
                let mut message =
                    proto::all().into_iter().find(|m| m.full_name() == name).expect("a message of ours");
                message.merge(Bytes::from(binary.clone())).expect(name);
                let (mut again, mut given) = (message.encode(), binary);
                let verdict = if again == given { "same" } else { "order" };
                again.sort_unstable();
                given.sort_unstable();
                if again != given {
                    wrong.push(format!("{name}: {hex}"));
                }
                format!("we read Python's: {verdict}")
            }
            _ => {
                wrong.push(line.to_string());
                continue;
            }
        };
        *counts.entry(verdict).or_default() += 1;
    }
    println!("{} kinds of message; {counts:?}; the order can differ in {OTHER_ORDER:?}", proto::all().len());
    let shown = wrong.iter().take(10).map(|line| line.chars().take(300).collect::<String>());
    assert!(wrong.is_empty(), "{} wrong: {:#?}", wrong.len(), shown.collect::<Vec<_>>());
    assert!(counts.len() >= 2 && counts.get("descriptors: same") == Some(&6), "{counts:?}");
}
