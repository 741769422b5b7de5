//! `p4jet check --constructs`: the network functions of the catalogue have the counts of the published tables.

use crate::common::{self, TempDir, run};
use serde_json::{Value, json};

fn constructs(program: &str) -> Value {
    let done = run(&["check", program, "--constructs", "--json"]).expect_status(0);
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stdout))
}

/// Returns the paths of a function's own packets: sent, with a hit in each table that is not optional.
fn own_paths(name: &str) -> Vec<Value> {
    let found = constructs(common::program(name).to_str().unwrap());
    assert_eq!(found["paths_more"], false, "{name}: {found}");
    let paths = found["paths"].as_array().unwrap().iter();
    let own: Vec<Value> = paths.filter(|path| path["sent"] == true).cloned().collect();
    assert!(!own.is_empty(), "{name}: {found}");
    own
}

/// Returns the path of a function's own packets: of those that are sent, the one with the most headers.
fn own_path(name: &str) -> Value {
    own_paths(name).into_iter().max_by_key(|path| path["counts"]["parsed"].as_u64()).expect("there is one")
}

/// The validation of the latency model, section 3.10, in the order parsed − 1, modified, copied, removed, added, tables − 1.
#[test]
fn validation_functions_have_the_published_vectors() {
    for (name, x) in [
        ("l3fwd", [1, 2, 0, 0, 0, 0]),
        ("l3fwd_firewall", [2, 2, 0, 0, 0, 1]),
        ("vxlan_decap_ptp", [10, 0, 3, 4, 0, 1]),
    ] {
        assert_eq!(own_path(name)["x"], json!(x), "{name}");
    }
}

/// Table 5.5: parsed, modified, copied, removed, added headers, and tables.
#[test]
fn catalogue_functions_have_the_published_counts() {
    for (name, counts) in [
        ("l2fwd", [1, 1, 0, 0, 0, 1]),
        ("l3fwd", [2, 2, 0, 0, 0, 1]),
        ("firewall", [3, 0, 0, 0, 0, 1]),
        ("vxlan_decap", [7, 0, 3, 4, 0, 2]),
        ("load_balancer", [3, 0, 0, 0, 0, 1]),
        ("tunneling", [3, 0, 0, 0, 0, 1]),
        ("nat", [3, 2, 0, 0, 0, 1]),
    ] {
        let path = own_path(name);
        let keys = ["parsed", "modified", "copied", "removed", "added", "tables"];
        assert_eq!(keys.map(|key| path["counts"][key].clone()), counts.map(Value::from), "{name}: {path}");
    }
    let hash = own_path("load_balancer");
    assert_eq!(
        hash["counts"]["externs"],
        json!([{ "function": "crc32", "instance": null, "calls": 1, "bytes": 13 }])
    );
    // Both directions of the translation.
    assert_eq!(
        own_paths("nat").iter().map(|path| path["x"].clone()).collect::<Vec<_>>(),
        vec![json!([2, 2, 0, 0, 0, 0]); 2]
    );
}

#[test]
fn every_shipped_program_has_constructs() {
    for folder in common::program_folders() {
        let program = common::program(&common::stem(&folder));
        let found = constructs(program.to_str().unwrap());
        let paths = found["paths"].as_array().unwrap();
        assert!(!paths.is_empty(), "{}", program.display());
        for path in paths {
            let counts = &path["counts"];
            let number = |key: &str| counts[key].as_u64().unwrap();
            assert_eq!(path["x"][0], number("parsed").saturating_sub(1), "{path}");
            assert_eq!(path["x"][5], number("tables").saturating_sub(1), "{path}");
            assert_eq!(path["tables"].as_array().unwrap().len() as u64, number("tables"), "{path}");
            assert!(number("moved_bytes") <= number("emitted_bytes"), "{path}");
            assert!(!path["decisions"].as_array().unwrap().is_empty(), "{path}");
        }
    }
}

#[test]
fn constructs_are_shown_as_text() {
    let l3fwd = common::program("l3fwd");
    let l3fwd = l3fwd.to_str().unwrap();
    run(&["check", l3fwd, "--constructs"]).expect_status(0).prints(&[
        "# Constructs of l3fwd",
        "| start parse_ipv4 | ingress.ipv4_lpm: route | sent | [1 2 0 0 0 0] |  |",
        "| lpm[32] × 65536 |",
    ]);
    // With an entry for every address, no packet misses.
    let dir = TempDir::new("constructs-text");
    let commands = dir.write("l3fwd.cmd", "table_add ipv4_lpm route 0.0.0.0/0 => 02:00:00:00:00:01 1\n");
    let done = run(&["check", l3fwd, "--constructs", "--commands", &commands]).expect_status(0);
    assert!(!done.stdout.contains("(miss)"), "{}", done.stdout);
    let wrong = dir.write("wrong.cmd", "table_add ipv4_lpm route 0.0.0.0/0 => 1\n");
    run(&["check", l3fwd, "--constructs", "--commands", &wrong]).expect_status(1).says(&["wrong.cmd"]);
    run(&["check", l3fwd, "--commands", &commands]).expect_status(2);
    run(&["check", l3fwd, l3fwd, "--constructs"]).expect_status(2).says(&["take one program"]);
    run(&["check", l3fwd, "--constructs", "--complexity"]).expect_status(2);
    run(&["check", l3fwd, "--json"]).expect_status(2);
}

/// The language tests have loops, stacks, unions, clones, resubmission: all have constructs.
#[test]
fn every_language_test_has_constructs() {
    let mut paths = 0;
    for entry in std::fs::read_dir(common::root().join("tests/language")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "p4") {
            let found = constructs(path.to_str().unwrap());
            paths += found["paths"].as_array().unwrap_or_else(|| panic!("{}", path.display())).len();
        }
    }
    assert!(paths > 100, "{paths}");
}

/// What passes remove does not count.
#[test]
fn the_program_that_runs_is_counted() {
    let dir = TempDir::new("constructs");
    let text = std::fs::read_to_string(common::program("l2fwd")).unwrap();
    let more = text.replace(
        "hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;",
        "hdr.ethernet.etherType = 1; hdr.ethernet.etherType = 2; hdr.ethernet.srcAddr = 1; hdr.ethernet.srcAddr = 2;",
    );
    assert_ne!(text, more);
    let found = constructs(&dir.write("more.p4", more));
    let sent = found["paths"].as_array().unwrap().iter().find(|path| path["sent"] == true).unwrap();
    // Two fields remain of four statements, and the destination.
    assert_eq!(
        (&sent["counts"]["fields_written"], &sent["counts"]["written_bits"]),
        (&json!(3), &json!(112))
    );
}
