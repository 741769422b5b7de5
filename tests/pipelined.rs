//! The pipeline on several threads has the same results as a worker: packets, order, counts; it refuses what it does
//! not support.

use crate::common::{self, TempDir, program, run_command};
use serde_json::Value;

fn bench(name: &str, packets: &str, arguments: &[&str]) -> common::Output {
    let mut command = common::p4jet();
    command.arg("bench").arg(program(name)).args(["--pcap", packets, "--seconds", "0.02"]).args(arguments);
    run_command(&mut command)
}

/// Commands and packets for a router, some without a route.
fn router(dir: &TempDir, count: usize) -> (String, Vec<Vec<u8>>) {
    let router = common::workload::l3(64, count);
    let mut frames = router.frames;
    frames.iter_mut().step_by(7).for_each(|frame| frame[24] ^= 0x55);
    (dir.write("router.cmd", &router.commands), frames)
}

#[test]
fn bench_compares_ring_sizes() {
    let dir = TempDir::new("rings");
    let (commands, frames) = router(&dir, 3000);
    let packets = dir.write("packets.pcap", common::pcap(&frames));
    for threads in [2, 3, 4] {
        let threads = format!("--pipelined={threads}");
        let arguments = ["--commands", &commands, "--json", &threads, "--rings", "1,64,1024"];
        let found = bench("simple_router", &packets, &arguments).expect_status(0);
        let line: Value = serde_json::from_str(&found.stdout).unwrap();
        let lines = line["pipelined"]["rings"].as_array().unwrap();
        let rings: Vec<u64> = lines.iter().map(|line| line["ring"].as_u64().unwrap()).collect();
        assert_eq!(rings, [0, 1, 64, 1024]);
        for found in lines {
            assert_eq!(found["digest"], line["digest"], "{found}");
            let number = |key: &str| found[key].as_f64().unwrap();
            assert!(0.0 < number("drops") && number("drops") < number("packets"), "{found}");
            let quantiles =
                ["p50", "p99", "p99_9", "max"].map(|which| number(&format!("latency_us_{which}")));
            assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{found}");
        }
        let digest = line["digest"].as_str().unwrap().to_string();
        let of_interp =
            bench("simple_router", &packets, &["--commands", &commands, "--json", "--engine", "interp"]);
        let of_interp: Value = serde_json::from_str(&of_interp.expect_status(0).stdout).unwrap();
        assert_eq!(of_interp["digest"], digest);
    }
    let table = ["| ring, packets | Mpps |", "| one worker |", "| 64 |"];
    bench("basic_l2", &packets, &["--pipelined", "--rings", "64"]).expect_status(0).prints(&table);
}

/// Unsupported cases are reported before anything is measured, and also while a switch runs.
#[test]
fn programs_that_threads_cannot_share_are_refused() {
    let dir = TempDir::new("not-on-threads");
    let packets = dir.write("packets.pcap", common::pcap(&[vec![0; 60]]));
    let bench = |name: &str, arguments: &[&str]| bench(name, &packets, arguments);
    bench("basic_l2", &["--pipelined", "--engine", "interp"]).expect_status(2).says(&["only machine code"]);
    bench("basic_l2", &["--pipelined", "--rings", "99999999"])
        .expect_status(2)
        .says(&["1 to 262144 packets"]);
    bench("basic_l2", &["--pipelined=5"]).expect_status(2).says(&["2..=4"]);
    let queues = dir.write("queues.cmd", "set_queue_depth 64\n");
    bench("basic_l2", &["--pipelined", "--commands", &queues])
        .expect_status(1)
        .says(&["not supported yet", "queues packets"]);
    let run = |arguments: &[&str]| {
        let mut command = common::p4jet();
        command.arg("run").arg(program("basic_l2")).args(["-i", "0@mem", "--no-control"]).args(arguments);
        run_command(&mut command)
    };
    run(&["--pipelined", "--cores", "2"]).expect_status(2).says(&["--pipelined", "--cores"]);
    run(&["--pipelined", "--engine", "interp"]).expect_status(1).says(&["only machine code"]);
    run(&["--pipelined", "--queues", "2"]).expect_status(1).says(&["queues packets"]);
    let both = ("r.read(m.seen, 0);", Some("writes a register or meter in one part"));
    let clones = ("clone(CloneType.E2E, 1);", Some("clones, replicates"));
    for (egress, refused) in [both, clones, ("", None)] {
        let path = dir.write("program.p4", REGISTER.replace("EGRESS", egress));
        let mut command = common::p4jet();
        command.args([
            "bench",
            &path,
            "--pcap",
            &packets,
            "--seconds",
            "0.01",
            "--pipelined",
            "--rings",
            "64",
        ]);
        let done = run_command(&mut command).expect_status(i32::from(refused.is_some()));
        if let Some(why) = refused {
            done.says(&["not supported yet", why]);
        }
    }
}

/// Ingress and egress share a register, if egress uses it.
const REGISTER: &str = r#"
#include <v1model.p4>
struct headers {}
struct meta { bit<32> seen; }
register<bit<32>>(1) r;
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) { state start { transition accept; } }
control V(inout headers h, inout meta m) { apply {} }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply { r.read(m.seen, 0); r.write(0, m.seen + 1); s.egress_spec = 1; }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply { EGRESS if (m.seen == 7) { mark_to_drop(s); } }
}
control D(packet_out p, in headers h) { apply {} }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"#;

/// The switch, with captures as ports: the same frames in the same order, and the same counts.
#[test]
fn run_sends_the_same_packets() {
    let dir = TempDir::new("run-pipelined");
    let (commands, frames) = router(&dir, 5000);
    let packets = dir.write("packets.pcap", common::pcap(&frames));
    let run = |name: &str, arguments: &[&str]| {
        let ports: Vec<String> =
            (1..4).map(|port| format!("{port}@pcap:,{}", dir.file(&format!("{name}-{port}.pcap")))).collect();
        let mut command = common::p4jet();
        command.arg("run").arg(program("simple_router")).args(["--commands", &commands, "--no-control"]);
        command.args(["-i", &format!("0@pcap:{packets},{}", dir.file(&format!("{name}-0.pcap")))]);
        for port in &ports {
            command.args(["-i", port]);
        }
        let done = run_command(command.args(arguments)).expect_status(0);
        let sent: Vec<_> =
            (0..4).map(|port| common::read_pcap(&dir.file(&format!("{name}-{port}.pcap")))).collect();
        let mut printed: Vec<String> = done.stderr.lines().map(str::to_string).collect();
        printed.sort();
        (sent, printed)
    };
    let (want, printed) = run("whole", &[]);
    assert!(want.iter().flatten().count() > 3000, "{printed:?}");
    for arguments in
        [["--pipelined", "--ring=64"], ["--pipelined=2", "--ring=4096"], ["--pipelined=3", "--ring=1"]]
    {
        let (got, also) = run(arguments[0], &arguments);
        let counts = |sent: &[Vec<Vec<u8>>]| sent.iter().map(Vec::len).collect::<Vec<_>>();
        assert!(got == want, "{arguments:?}: {:?} instead of {:?}; {also:?}", counts(&got), counts(&want));
        assert_eq!(also, printed, "{arguments:?}");
    }
}
