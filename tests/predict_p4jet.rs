//! `p4jet profile` and predictions of p4jet's own speed. Nothing here tests that the predictions are right, because machines that
//! run tests are busy: `p4jet predict --check` does.

use crate::common::{self, TempDir, p4jet, run, run_command};
use serde_json::Value;
use std::sync::LazyLock;

/// A small profile of this machine, in a folder for `XDG_CONFIG_HOME`.
static PROFILE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = TempDir::new("profile");
    let file = folder.file("measurements");
    let mut command = p4jet();
    command.args(["profile", "--every", "24", "--entries", "1024", "--measurements", &file]);
    let done = run_command(command.env("XDG_CONFIG_HOME", folder.path())).expect_status(0);
    assert!(done.stdout.contains("% mean error for mixtures"), "{}", done.stdout);
    folder
});

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header label_t { bit<64> a; bit<64> b; }
struct headers_t { ethernet_t ethernet; label_t label; }
struct meta_t {}
parser P(packet_in b, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start { b.extract(hdr.ethernet); transition select(hdr.ethernet.type) { 1: label; default: accept; } }
    state label { b.extract(hdr.label); transition accept; }
}
control V(inout headers_t hdr, inout meta_t meta) { apply {} }
control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action send(bit<9> port) { std.egress_spec = port; }
    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { send; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    apply {
        if (hdr.label.isValid()) {
            stations.apply();
            hash(hdr.label.b, HashAlgorithm.crc32, 64w0, { hdr.label.a, hdr.label.b, hdr.ethernet.src }, 64w65536);
        } else {
            std.egress_spec = 1;
        }
    }
}
control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply {} }
control C(inout headers_t hdr, inout meta_t meta) { apply {} }
control D(packet_out b, in headers_t hdr) { apply { b.emit(hdr.ethernet); b.emit(hdr.label); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Three of four packets take the short path.
fn frames() -> Vec<Vec<u8>> {
    let frame = |i: u8| {
        let mut frame = vec![2, 0, 0, 0, 0, i, 4, 0, 0, 0, 0, 1, 0, u8::from(i.is_multiple_of(4))];
        frame.resize(60, i);
        frame
    };
    (0..64).map(frame).collect()
}

fn with_profile(arguments: &[&str]) -> common::Output {
    run_command(p4jet().args(arguments).env("XDG_CONFIG_HOME", PROFILE.path()))
}

fn predicted(arguments: &[&str]) -> Value {
    let done = with_profile(arguments).expect_status(0);
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stdout))
}

#[test]
fn a_capture_gives_paths_parts_tables_and_delays() {
    let folder = TempDir::new("predict");
    let program = folder.write("program.p4", PROGRAM);
    let capture = folder.write("packets.pcap", common::pcap(&frames()));
    let commands = folder.write("entries.cmd", "table_add stations send 02:00:00:00:00:04 => 2\n");
    let json = predicted(&[
        "predict",
        &program,
        "--commands",
        &commands,
        "--pcap",
        &capture,
        "--cores",
        "2",
        "--json",
    ]);
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number in {json}"));
    let paths = json["paths"].as_array().unwrap();
    let shares: Vec<f64> = paths.iter().map(|path| number(&path["share"])).collect();
    // No label; a label and no entry; a label and an entry.
    assert_eq!(shares, [0.75, 0.234375, 0.015625], "{json}");
    assert!(number(&paths[1]["ns"]) > number(&paths[0]["ns"]), "a lookup and a hash take time: {json}");
    let sum: f64 = json["parts"].as_array().unwrap().iter().map(|part| number(&part["ns"])).sum();
    assert!((sum - number(&json["ns"])).abs() < 0.01, "the parts add up: {json}");
    let names: Vec<&str> =
        json["parts"].as_array().unwrap().iter().map(|p| p["part"].as_str().unwrap()).collect();
    for name in ["receive and send", "P", "I", "I.stations: lookup", "extern functions"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let [low, high] = [0, 1].map(|i| number(&json["interval_ns"][i]));
    assert!(low < number(&json["ns"]) && number(&json["ns"]) < high, "{json}");
    assert_eq!(json["tables"][0]["entries"], 1);
    assert!(number(&json["tables"][0]["predicted"][0]["bytes"]) > 1000.0, "{json}");
    assert_eq!(json["tables"][0]["predicted"][1]["bytes"], Value::Null, "its size is 4096: {json}");
    assert!(
        number(&json["compile_ms"]) > 0.0 && number(&json["cores"]["mpps"]) > number(&json["mpps_per_core"])
    );
    let delays: Vec<f64> =
        json["delays"].as_array().unwrap().iter().map(|d| number(&d["delay_us"])).collect();
    assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]) && delays[5] > delays[0], "{delays:?}");
}

#[test]
fn without_a_capture_each_path_has_a_packet() {
    let folder = TempDir::new("predict-paths");
    let program = folder.write("program.p4", PROGRAM);
    let json = predicted(&["predict", &program, "--json"]);
    let paths = json["paths"].as_array().unwrap();
    assert!(paths.len() >= 3, "{json}");
    let more = predicted(&["predict", &program, "--entries", "4000", "--json"]);
    assert_ne!(more["ns"], json["ns"], "lookups among more entries wait for memory: {more}");
    let text = with_profile(&["predict", &program, "--share", "1:0.25", "--share", "2:0.75"])
        .expect_status(0)
        .stdout;
    for part in
        [" ns a packet (", "where the time goes", "Mpps per core", "compiles in", "mean delay in µs by load"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    with_profile(&["predict", &program, "--share", "1:0.2"])
        .expect_status(2)
        .says(&["add up to 0.2", "expected 1"]);
}

#[test]
fn the_check_prints_each_case_and_sums_up() {
    let text = with_profile(&["predict", "--check", "--only", "mac mirror"]).expect_status(0).stdout;
    let lines: Vec<&str> = text.lines().collect();
    let cases = lines.iter().filter(|line| line.contains("mac mirror")).count();
    assert!(cases > 0 && lines.len() == cases + 2, "a head, the cases, the sum: {text}");
    let sum = lines.last().unwrap();
    assert!(sum.starts_with(&format!("{cases} cases: mean absolute error ")), "{sum}");
    with_profile(&["predict", "--check", "--only", "no such case"])
        .expect_status(2)
        .says(&["no such case", "l2 64"]);
}

#[test]
fn stages_are_predicted_beside_what_is_measured() {
    let folder = TempDir::new("predict-stages");
    let program = folder.write("program.p4", PROGRAM);
    let capture = folder.write("packets.pcap", common::pcap(&frames()));
    let bench = ["bench", &program, "--pcap", &capture, "--stages", "--seconds", "0.05", "--json"];
    let json = predicted(&bench);
    assert!(json["whole_predicted_ns"].as_f64().unwrap() > 0.0, "{json}");
    let stages = json["stages"].as_array().unwrap();
    let lookup = stages.iter().find(|stage| stage["stage"] == "I.stations: lookup").unwrap();
    assert!(lookup["predicted_ns"].as_f64().unwrap() > 0.0, "{lookup}");
    // Without a profile nothing is predicted.
    let nowhere = TempDir::new("no-profile");
    let done = run_command(p4jet().args(bench).env("XDG_CONFIG_HOME", nowhere.path())).expect_status(0);
    let json: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(json["whole_predicted_ns"], Value::Null);
}

#[test]
fn a_missing_or_wrong_profile_is_explained() {
    let folder = TempDir::new("wrong-profile");
    let program = folder.write("program.p4", PROGRAM);
    let done = run_command(p4jet().args(["predict", &program]).env("XDG_CONFIG_HOME", folder.path()));
    done.expect_status(1).says(&["run `p4jet profile`", "--profile"]);
    run(&["predict", "--check", "--profile", "agilio-cx"])
        .expect_status(1)
        .says(&["agilio-cx", "no model of p4jet"]);
    let good = std::fs::read_to_string(PROFILE.path().join("p4jet").join("profile.toml")).unwrap();
    let wrong = folder.write("wrong.toml", good.replace("calibration_ns = ", "calibration = "));
    run(&["predict", &program, "--profile", &wrong])
        .expect_status(1)
        .says(&["p4jet.calibration_ns", "missing"]);
    // As a device of the other model.
    let file = folder.write("device.toml", good);
    run(&["predict", "--profile", &file, "--counts", "1,2,0,0,0,0"]).expect_status(0);
}
