//! The controller of programs/vqueue and a switch, as processes: the file and its changes, mistakes, restarts, and what
//! `show` and `plan` print. python/tests/test_vqueue.py tests the program itself.

use crate::common::{self, TempDir, p4jet, program, root, run_command};
use crate::controller::Process;
use p4jet_slices::{Changes, Config, entries, read_entries};
use p4jet_text::client::Client;
use std::path::Path;
use std::time::Instant;

const SLICES: &str = r#"capacity_mbit = 1000
[[slice]]
name = "dc"
number = 1
match = [{ prefix = "192.0.2.0/24" }]
rate_mbit = 0.008
burst_ms = 3500
packet_bytes = 1
scheme = "ecn"
target_ms = 1500
[[slice]]
name = "other"
number = 2
match = [{}]
rate_mbit = 8
burst_ms = 30
"#;

/// A switch that routes everything to port 1.
fn switch(dir: &TempDir, socket: &str) -> Process {
    let commands = dir.write(
        "routes.cmd",
        "table_add routes_v4 set_next_hop 0.0.0.0/0 => 1\ntable_add next_hops send_to 1 => 1 00:00:5e:00:53:f1 00:00:5e:00:53:a1\n",
    );
    let mut command = p4jet();
    command.arg("run").arg(program("vqueue")).args([
        "--stay",
        "-i",
        "1@mem",
        "--control",
        socket,
        "--commands",
        &commands,
    ]);
    let mut process = Process::start(&mut command);
    process.wait_for(": forwarding between ");
    process
}

fn controller(config: &str, socket: &str) -> Process {
    Process::start(p4jet().args(["slices", config, "--socket", socket]))
}

/// Checks that the switch has exactly the entries of a configuration.
#[track_caller]
fn has(socket: &str, text: &str) {
    let mut client = Client::unix(Path::new(socket)).unwrap();
    let wanted = entries(&Config::parse(text).unwrap());
    let begin = Instant::now();
    loop {
        let changes = Changes::new(&wanted, &read_entries(&mut client).unwrap().unwrap());
        if changes.updates.is_empty() {
            return;
        }
        assert!(begin.elapsed() < common::DEADLINE, "{changes:?}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_file_its_changes_and_restarts() {
    let dir = TempDir::new("slices");
    let socket = dir.file("switch.sock");
    let path = dir.write("slices.toml", SLICES);
    let first = switch(&dir, &socket);
    let mut running = controller(&path, &socket);
    running.wait_for("5 to add, 0 to change, 0 to remove");
    has(&socket, SLICES);

    // A change of one slice is one update, and keeps what the slice has done.
    let faster = SLICES.replace("rate_mbit = 8\n", "rate_mbit = 16\n");
    dir.write("slices.toml", &faster);
    running.wait_for("0 to add, 1 to change, 0 to remove");
    has(&socket, &faster);

    // A mistake changes nothing, nor do delays that are too long.
    dir.write("slices.toml", faster.replace("\"ecn\"", "\"enc\""));
    assert!(running.wait_for("did you mean `ecn`?").contains("slices.toml:9:10: "));
    running.wait_for("the previous version stays in effect");
    dir.write("slices.toml", faster.replace("burst_ms = 30", "burst_ms = 30\ndelay_ms = 0.01"));
    running.wait_for("the worst-case delay of `other` is ");
    running.wait_for("the previous version stays in effect");
    has(&socket, &faster);

    // Another program's change is found on SIGHUP, and a slice that is not in the file is removed.
    let mut client = Client::unix(Path::new(&socket)).unwrap();
    assert!(client.command("table_clear classify_v6", false).unwrap().ok);
    assert!(client.command("table_add slices unlimited 9 => 0", false).unwrap().ok);
    running.signal("-HUP");
    has(&socket, &faster);

    // The controller starts again; then the switch does, empty.
    running.signal("-TERM");
    assert!(common::wait(&mut running.child, "the controller").success());
    let mut running = controller(&path, &socket);
    running.wait_for("slices.toml");
    drop(running);
    let path = dir.write("slices.toml", &faster);
    let mut running = controller(&path, &socket);
    running.wait_for("nothing to change");
    drop(first);
    running.wait_for("switch: ");
    let _second = switch(&dir, &socket);
    running.wait_for("5 to add, 0 to change, 0 to remove");
    has(&socket, &faster);
}

#[test]
fn show_has_rates_delays_drops_and_marks() {
    let dir = TempDir::new("show");
    let socket = dir.file("switch.sock");
    let path = dir.write("slices.toml", SLICES);
    let _switch = switch(&dir, &socket);
    let mut running = controller(&path, &socket);
    running.wait_for("5 to add");
    // ECT(0). A packet of `dc` counts as one byte at 8 kbit/s: a millisecond.
    let mut client = Client::unix(Path::new(&socket)).unwrap();
    let frame =
        "00005e005301 00005e005302 0800 45020020000000004011aec3 0a000001 c0000207 03e8138c000c0000 deadbeef"
            .replace(' ', "");
    for _ in 0..4 {
        let answer = client.command(&format!("inject 1 {frame}"), false).unwrap();
        assert!(answer.ok, "{answer:?}");
    }
    let show = |more: &[&str]| {
        let mut command = p4jet();
        command.args(["slices", "show", &path, "--socket", &socket, "--seconds", "0.01"]).args(more);
        run_command(&mut command).expect_status(0)
    };
    let line: serde_json::Value = serde_json::from_str(&show(&["--json"]).stdout).unwrap();
    let dc = &line["slices"][0];
    assert_eq!(dc["packets"]["forwarded"].as_u64(), Some(4), "{line}");
    assert_eq!((dc["name"].as_str(), dc["packets"]["dropped"].as_u64()), (Some("dc"), Some(0)), "{line}");
    assert!(dc["delay_ms"].as_f64().unwrap() <= 4.0 && dc["limit_ms"].as_f64() == Some(3500.0), "{line}");
    show(&[]).prints(&["slice", "dc", "other", "delay, ms"]);
    run_command(p4jet().args(["slices", "show", &path, "--socket", &socket, "--seconds", "0"]))
        .expect_status(2);
}

#[test]
fn plan_calculates() {
    let example = root().join("programs/vqueue/slices.toml");
    let example = example.to_str().unwrap();
    let output = run_command(p4jet().args(["slices", "plan", example])).expect_status(0);
    // docs/slices.md shows the same.
    let page = std::fs::read_to_string(root().join("docs/slices.md")).unwrap();
    for line in output.stdout.lines() {
        assert!(page.contains(line), "docs/slices.md lacks `{line}`");
    }
    let output = run_command(p4jet().args(["slices", "plan", example, "--json"])).expect_status(0);
    let line: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (line["least_capacity_mbit"].as_f64(), line["enough"].as_bool()),
        (Some(330.0), Some(true)),
        "{line}"
    );
    // The commands load.
    let dir = TempDir::new("commands");
    let output = run_command(p4jet().args(["slices", "plan", example, "--commands"])).expect_status(0);
    let commands = dir.write("slices.cmd", &output.stdout);
    run_command(p4jet().arg("trace").arg(program("vqueue")).args(["--commands", &commands, "00"]))
        .expect_status(0);
    // A capacity that is not enough is a mistake, except for `plan`.
    let short = dir.write("short.toml", std::fs::read_to_string(example).unwrap().replace("= 400", "= 285"));
    run_command(p4jet().args(["slices", &short]))
        .expect_status(1)
        .says(&["these slices need capacity_mbit = 330"]);
    run_command(p4jet().args(["slices", "plan", &short]))
        .expect_status(0)
        .prints(&["not enough", "exceeded"]);
    run_command(p4jet().args(["slices", "plna"])).expect_status(1).says(&["did you mean `slices plan`?"]);
    run_command(p4jet().args(["slices"])).expect_status(2);
}
