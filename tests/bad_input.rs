//! Bad input of every kind. Each case asserts the exit status (1 the input is wrong, 2 wrong usage, 3 the environment
//! refused) and that the message helps: what was found, what was expected, which choices there are. common/mod.rs, which
//! runs the processes, asserts that none ends by a panic or a signal.

use crate::common::{self, Output, TempDir, p4jet, pcap, run, run_command};

/// A table with two entries, a table with a const entry, a register; two actions share a suffix, and so do two tables.
const PROGRAM: &str = r#"#include <core.p4>
#include <v1model.p4>
header h_t { bit<16> a; bit<9> b; bit<7> c; bit<48> mac; }
struct headers { h_t h; }
struct meta {}
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply {} }
control Inner(inout headers hdr, inout standard_metadata_t s) {
    action go(bit<9> port) { s.egress_spec = port; }
    table small { key = { hdr.h.a : exact; } actions = { go; } default_action = go(3); size = 2; }
    apply { small.apply(); }
}
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    register<bit<16>>(8) reg;
    Inner() left;
    Inner() right;
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table two { key = { hdr.h.a : exact; } actions = { send; drop; } default_action = drop(); size = 2; }
    table tern { key = { hdr.h.a : ternary; hdr.h.mac : exact; } actions = { send; drop; } default_action = drop(); }
    table pre { key = { hdr.h.a : lpm; } actions = { send; } default_action = send(1); }
    table ports { key = { hdr.h.b : range; } actions = { send; } default_action = send(2); }
    table fixed {
        key = { hdr.h.a : exact; }
        actions = { send; drop; }
        const default_action = drop();
        const entries = { 9 : send(1); }
    }
    apply {
        fixed.apply();
        left.apply(hdr, s);
        right.apply(hdr, s);
        tern.apply();
        pre.apply();
        ports.apply();
        // Applied last, so it decides.
        two.apply();
        reg.write(0, hdr.h.a);
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// Runs p4jet with these words; `PROG` is replaced by the program's path and `DIR` by the folder's.
fn p4jet_words(dir: &TempDir, words: &str) -> Output {
    let program = dir.file("prog.p4");
    if !std::path::Path::new(&program).exists() {
        dir.write("prog.p4", PROGRAM);
    }
    let folder = dir.path().to_str().expect("UTF-8");
    let words: Vec<String> =
        words.split_whitespace().map(|w| w.replace("PROG", &program).replace("DIR", folder)).collect();
    run(&words)
}

#[test]
fn the_program_of_these_tests_is_fine() {
    let dir = TempDir::new("fine");
    let output = p4jet_words(&dir, "check PROG").expect_status(0);
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
}

#[test]
fn wrong_usage_is_status_2() {
    let dir = TempDir::new("usage");
    let packets = dir.write("packets.pcap", pcap(&[vec![0; 60]]));
    for (words, says) in [
        ("", &["Usage: p4jet", "check", "test", "run", "trace", "bench", "demo"] as &[&str]),
        ("chekc PROG", &["unrecognized subcommand 'chekc'", "check"]),
        ("rnu PROG", &["unrecognized subcommand 'rnu'", "did you mean `run`?"]),
        ("simple_swich PROG", &["unrecognized subcommand", "did you mean `simple_switch`?"]),
        ("check PROG --Wdisable=invalid-heder", &["did you mean `invalid-header`?"]),
        (
            "run PROG -i 0@mem,dealy=1ms",
            &["unknown option `dealy=1ms`: did you mean `delay`? expected delay=TIME"],
        ),
        ("run PROG -i 0@tpa:x", &["unknown kind `tpa`: did you mean `tap`? expected IFNAME"]),
        (
            "run PROG -i 0@mem --capture 0@x.pcap,snaplne=9",
            &["`snaplne=9`: did you mean `snaplen`? expected in"],
        ),
        (
            "run PROG -i 0@pcap:x, --capture 0@x",
            &["a capture to x would overwrite a file of port `0@pcap:x,`"],
        ),
        ("trace PROG tpc", &["unknown layer `tpc`: did you mean `tcp`? layers: eth"]),
        ("lb --hash crc33", &["unknown hash `crc33`: did you mean `crc32`? expected koopman"]),
        ("simple_switch_CLI --thrift-prt 9", &["unexpected argument '--thrift-prt'", "'--thrift-port'"]),
        ("trace PROG --first 3 0200", &["--first needs a capture"]),
        ("check", &["<PROGRAM>"]),
        ("check PROG --tim", &["unexpected argument '--tim'", "'--time'"]),
        ("run PROG PROG -i 0@mem", &["unexpected argument"]),
        ("check PROG --arch tna", &["unknown architecture `tna`", "expected auto or one of: v1model"]),
        ("check PROG --arch pna", &["not supported yet: architecture `pna`", "v1model, psa"]),
        ("test PROG", &["<TESTS>"]),
        ("test PROG x.stf --engine turbo", &["invalid value 'turbo'", "jit", "interp", "both"]),
        ("run PROG", &["-i <N@SPEC>"]),
        ("run PROG -i", &["N@SPEC"]),
        ("run PROG -i veth0", &["port `veth0`", "expected N@SPEC", "for example `0@veth0`"]),
        ("run PROG -i 0@", &["nothing after `@`", "IFNAME", "tap:NAME", "pcap:IN,OUT", "mem"]),
        ("run PROG -i x@veth0", &["`x` is not a port number", "expected 0 to"]),
        ("run PROG -i -1@veth0", &["-1"]),
        ("run PROG -i 0@dpdk:0", &["unknown kind `dpdk`", "IFNAME"]),
        ("run PROG -i 0@pcap:one.pcap", &["expected pcap:IN,OUT", "pcap:one.pcap,"]),
        ("run PROG -i 0@pcap:,", &["neither an input nor an output file"]),
        ("run PROG -i 0@name-much-too-long", &["18 bytes", "at most 15"]),
        ("run PROG -i 512@mem", &["port 512", "port numbers from 0 to 510"]),
        ("trace PROG --port 512 00", &["port 512", "port numbers from 0 to 510"]),
        (
            "trace PROG --port 511 00",
            &["port 511: `", "` uses this number as its drop port; choose 0 to 510"],
        ),
        ("run PROG -i 0@mem -i 0@mem", &["`0@mem` and `0@mem`", "the same number 0"]),
        ("run PROG -i 0@lo -i 1@packet:lo", &["the same interface `lo`"]),
        ("run PROG -i 0@pcap:,DIR/x -i 1@pcap:DIR/x,", &["use the file", "which one of them writes"]),
        ("run PROG -i 0@mem --engine turbo", &["invalid value 'turbo'", "jit", "interp"]),
        ("run PROG -i 0@mem --frame-max x", &["invalid value 'x'", "--frame-max", "expected a whole number"]),
        ("run PROG --p4runtime --cpu-port x", &["'x' for '--cpu-port <N>': expected a whole number"]),
        ("run PROG --p4runtime --device-id 99999999999999999999", &["the number is too large"]),
        ("simple_switch_CLI --thrift-port x", &["'--thrift-port <PORT>': expected a whole number"]),
        ("trace PROG", &["<HEX|LAYERS|FILE>"]),
        ("trace PROG --port x 00", &["invalid value 'x'", "--port"]),
        ("trace PROG 0g", &["character 2 of the frame is `g`", "expected hexadecimal digits"]),
        ("trace PROG 00 0", &["3 hexadecimal digits", "expected two for each byte"]),
        ("bench PROG", &["--pcap <FILE>"]),
        ("bench PROG --pcap DIR/packets.pcap --seconds 0", &["--seconds 0", "more than 0"]),
        ("bench PROG --pcap DIR/packets.pcap --seconds -1", &["-1"]),
        ("bench PROG --pcap DIR/packets.pcap --seconds x", &["invalid value 'x'", "expected a number"]),
        ("bench PROG --pcap DIR/packets.pcap --seconds NaN", &["--seconds NaN"]),
        ("bench PROG --pcap DIR/packets.pcap --seconds inf", &["--seconds inf"]),
        ("bench PROG --pcap DIR/packets.pcap --cores 0", &["--cores 0: expected 1 to ", "processors"]),
        ("bench PROG --pcap DIR/packets.pcap --cores 9999", &["--cores 9999: expected 1 to ", "processors"]),
        ("demo --seconds 0", &["--seconds 0"]),
        ("demo extra", &["unexpected argument 'extra'"]),
    ] {
        let output = p4jet_words(&dir, words);
        assert_eq!(output.status, 2, "{words}\n{}{}", output.stdout, output.stderr);
        let output = output.says(says);
        assert_eq!(output.stdout, "", "{words}");
    }
    drop(packets);
}

/// Without a single latency there is none to report.
#[test]
fn lost_traffic_has_no_latency() {
    let words = ["traffic", "--send", "mem", "--receive", "mem", "--seconds", "0.05", "--rate", "1000"];
    let output = run(&words).expect_status(0).prints(&["no frame came back"]);
    assert!(!output.stdout.contains("latency:"), "{}", output.stdout);
}

#[test]
fn help_is_not_a_failure() {
    for words in [&["--help"] as &[&str], &["--version"], &["help"], &["check", "--help"], &["run", "-h"]] {
        let output = run(words).expect_status(0);
        assert!(!output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn files_that_are_not_programs() {
    let dir = TempDir::new("programs");
    dir.write("empty.p4", "");
    dir.write("blank.p4", "\n\n// nothing here\n");
    dir.write("nomain.p4", "#include <core.p4>\nheader h { bit<8> x; }\n");
    dir.write("syntax.p4", "#include <core.p4>\nheader h { bit<8> x }\n");
    dir.write("type.p4", "#include <core.p4>\nconst bit<8> x = true;\n");
    dir.write("include.p4", "#include <core.p5>\n");
    dir.write("self.p4", "#include \"self.p4\"\n");
    dir.write("package.p4", "package Box();\nBox() main;\n");
    // In a name rather than in a comment or string, where P4_16 allows any byte.
    dir.write("binary.p4", b"header \xff\xfe { bit<8> x; }\n\x00\x01");
    dir.write(
        "noise.p4",
        (0u32..4096).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>(),
    );
    dir.write("if.p4", "#if 1\nconst bit<8> x = 1;\n");
    dir.write("comment.p4", "/* never closed");
    for (words, says) in [
        ("check DIR/missing.p4", &["cannot read", "missing.p4", "No such file"] as &[&str]),
        ("check DIR", &["cannot read", "irectory"]),
        ("run DIR/empty.p4 -i 0@mem", &["main", "#include"]),
        ("run DIR/blank.p4 -i 0@mem", &["main"]),
        ("test DIR/nomain.p4 x.stf", &["main", "nomain.p4:2:"]),
        ("check DIR/nomain.p4 --arch v1model", &["main", "nomain.p4:2:"]),
        ("check DIR/syntax.p4", &["expected `;`", "syntax.p4:2:20", "header h { bit<8> x }", "^"]),
        ("check DIR/type.p4", &["type.p4:2:", "const bit<8> x = true;", "^", "bit<8>", "bool"]),
        ("check DIR/include.p4", &["core.p5", "include.p4:1:"]),
        ("check DIR/self.p4", &["self.p4:1:"]),
        ("trace DIR/package.p4 00", &["not supported yet", "package.p4:2:", "v1model"]),
        ("check DIR/binary.p4", &["binary.p4:1:"]),
        ("check DIR/noise.p4", &["noise.p4:"]),
        ("check DIR/if.p4", &["#endif", "if.p4:1"]),
        ("check DIR/comment.p4", &["comment.p4:1:1"]),
        ("test DIR/syntax.p4 x.stf", &["syntax.p4:2:20"]),
        ("run DIR/syntax.p4 -i 0@mem", &["syntax.p4:2:20"]),
        ("trace DIR/syntax.p4 00", &["syntax.p4:2:20"]),
        ("bench DIR/syntax.p4 --pcap x", &["syntax.p4:2:20"]),
    ] {
        let output = p4jet_words(&dir, words);
        assert_eq!(output.status, 1, "{words}\n{}{}", output.stdout, output.stderr);
        let output = output.says(says);
        assert_eq!(output.stdout, "", "{words}");
        assert!(output.stderr.contains("error"), "{words}: {}", output.stderr);
    }
}

/// `check` also accepts programs that are not switches, with a note.
#[test]
fn check_accepts_programs_that_are_not_switches() {
    let dir = TempDir::new("noswitch");
    dir.write("nomain.p4", "#include <core.p4>\nheader h { bit<8> x; }\n");
    dir.write("package.p4", "package Box();\nBox() main;\n");
    for (words, says) in [
        ("check DIR/nomain.p4", "nomain.p4: fine as P4, but it has no instance called `main` to run\n"),
        (
            "check DIR/package.p4",
            "package.p4: fine as P4, but its `main` is a `Box`, and the packages that can",
        ),
    ] {
        let output = p4jet_words(&dir, words).expect_status(0);
        assert!(output.stdout.contains(says), "{}", output.stdout);
        assert_eq!(output.stderr, "");
    }
}

/// p4jet refuses unsupported features with their place: an extern that only the program declares cannot run.
#[test]
fn foreign_externs_are_refused_with_the_place() {
    let dir = TempDir::new("features");
    let text = PROGRAM.replace("reg.write(0, hdr.h.a);", "foreign(hdr.h.a);");
    assert_ne!(text, PROGRAM);
    let text = text.replace("struct headers", "extern void foreign(in bit<16> x);\nstruct headers");
    let path = dir.write("foreign.p4", &text);
    run(&["check", &path]).expect_status(0).prints(&["foreign"]);
    let script = dir.write("some.stf", "packet 0 0001\nexpect 0\n");
    run(&["test", &path, &script]).expect_status(1).prints(&["the extern `foreign`", "foreign.p4:"]);
}

#[test]
fn files_that_are_not_captures() {
    let dir = TempDir::new("captures");
    let whole = pcap(&[vec![0; 60], vec![1; 60]]);
    dir.write("whole.pcap", &whole);
    dir.write("truncated.pcap", &whole[..whole.len() - 7]);
    dir.write("header.pcap", &whole[..20]);
    dir.write("record.pcap", &whole[..24 + 10]);
    dir.write("empty.pcap", "");
    dir.write("none.pcap", pcap(&[]));
    // LINKTYPE_RAW: IP without a link layer.
    dir.write("raw.pcap", common::pcap_of_link(101, &[vec![0x45; 60]]));
    dir.write("text.pcap", "this is no capture, whatever it is");
    let mut huge = whole.clone();
    huge[24 + 8..24 + 16].copy_from_slice(&[0xff; 8]);
    dir.write("huge.pcap", &huge);
    for (file, says) in [
        ("missing.pcap", &["cannot open", "missing.pcap", "No such file"] as &[&str]),
        ("truncated.pcap", &["truncated.pcap", "packet 2"]),
        ("header.pcap", &["header.pcap"]),
        ("record.pcap", &["record.pcap", "packet 1"]),
        ("empty.pcap", &["the file is empty", "expected a pcap or pcapng header"]),
        ("raw.pcap", &["raw.pcap", "Ethernet"]),
        ("text.pcap", &["74 68 69 73", "expected a pcap file"]),
        ("huge.pcap", &["huge.pcap", "packet 1", "4294967295"]),
        ("", &["cannot"]),
    ] {
        let path = if file.is_empty() { dir.path().to_str().unwrap().to_owned() } else { dir.file(file) };
        dir.write("prog.p4", PROGRAM);
        let program = dir.file("prog.p4");
        let output = run(&["bench", &program, "--pcap", &path, "--seconds", "0.01"]);
        assert_eq!(output.status, 1, "bench {file}: {}", output.stderr);
        output.says(says);
        let output = run(&["run", &program, "-i", &format!("0@pcap:{path},")]);
        assert_eq!(output.status, 1, "run {file}: {}", output.stderr);
        output.says(says);
    }
    // A capture without packets cannot be measured, but is a valid input.
    let program = dir.file("prog.p4");
    run(&["bench", &program, "--pcap", &dir.file("none.pcap")]).expect_status(1).says(&["empty"]);
    run(&["run", &program, "-i", &format!("0@pcap:{},", dir.file("none.pcap"))]).expect_status(0);
    // Packets read before the bad place were forwarded.
    let out = dir.file("out.pcap");
    let input = dir.file("truncated.pcap");
    let words = ["run", &program, "-i", &format!("0@pcap:{input},"), "-i", &format!("2@pcap:,{out}")];
    run(&words).expect_status(1);
    assert!(common::read_pcap(&out).len() <= 1);
}

#[test]
fn the_environment_refuses() {
    let dir = TempDir::new("environment");
    let output = p4jet_words(&dir, "run PROG -i 0@p4jet-none").expect_status(3);
    output.says(&["no network interface `p4jet-none`", "the interfaces here are", "`lo`"]);
    p4jet_words(&dir, "run PROG -i 0@pcap:,DIR/nowhere/out.pcap")
        .expect_status(3)
        .says(&["nowhere/out.pcap"]);
    // A full disk is detected at the end.
    dir.write("many.pcap", pcap(&vec![vec![0; 60]; 1000]));
    p4jet_words(&dir, "run PROG -i 0@pcap:DIR/many.pcap, -i 2@pcap:,/dev/full")
        .expect_status(3)
        .says(&["No space"]);
}

/// Results without a reader: a full disk is an environment that refuses, but a reader that closes the pipe is not.
#[test]
fn standard_output_that_accepts_nothing() {
    let dir = TempDir::new("output");
    dir.write("prog.p4", PROGRAM);
    let program = dir.file("prog.p4");
    let calls: [&[&str]; 3] =
        [&["trace", &program, "0001"], &["check", &program, "--ir"], &["check", &program, "--time"]];
    for words in calls {
        // `run_command` reads the output, so a shell redirects it.
        let shell = |redirection: &str| {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", &format!("\"$@\" {redirection}"), "sh", env!("CARGO_BIN_EXE_p4jet")])
                .args(words);
            run_command(&mut command)
        };
        shell("> /dev/full").expect_status(3).says(&["cannot write to standard output", "No space"]);
        let output = shell("| true");
        assert!(!output.stderr.contains("panic"), "{}", output.stderr);
    }
}

/// A script on standard input runs to its end, even after the last packet.
#[test]
fn a_script_runs_to_its_end() {
    let dir = TempDir::new("script");
    dir.write("prog.p4", PROGRAM);
    dir.write("in.pcap", pcap(&[common::hex("00070000000000000000")]));
    let script = dir.write("script", "register_read reg 0\ntable_num_entries two\n");
    let program = dir.file("prog.p4");
    let input = format!("0@pcap:{},", dir.file("in.pcap"));
    let mut command = p4jet();
    command.args(["run", &program, "-i", &input, "--stdin"]).stdin(std::fs::File::open(script).unwrap());
    run_command(&mut command).expect_status(0).prints(&["reg[0]= ", "RuntimeCmd: 0\n"]);
}

/// Runs as the user `nobody`: root switches to it; other users already lack the rights.
#[test]
fn not_permitted_names_the_remedy() {
    use std::os::unix::process::CommandExt;
    let dir = TempDir::new("nobody");
    // Readable for all users, in any temporary folder.
    let program = dir.write("prog.p4", PROGRAM);
    let binary = dir.file("p4jet");
    std::fs::copy(env!("CARGO_BIN_EXE_p4jet"), &binary).unwrap();
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    let as_nobody = |words: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        command.args(words).stdin(std::process::Stdio::null()).current_dir("/");
        if is_root {
            command.uid(65534).gid(65534);
        }
        run_command(&mut command)
    };
    let output = as_nobody(&["run", &program, "-i", "0@lo"]).expect_status(3);
    output.says(&["cannot open a packet socket", "`lo`", "CAP_NET_RAW"]);
    let output = as_nobody(&["run", &program, "-i", "0@tap:p4jet-tap"]).expect_status(3);
    output.says(&["p4jet-tap"]);
}

/// Wrong runtime commands: file, line, column, and what would be right.
#[test]
fn wrong_entries() {
    let dir = TempDir::new("entries");
    let good = "table_add two send 1 => 1\n";
    for (line, says) in [
        ("table_ad two send 2 => 1", &["table_ad", "did you mean `table_add`"] as &[&str]),
        ("table_add tow send 2 => 1", &["Invalid table name (tow)", "did you mean `I.two`"]),
        ("table_add small go 2 => 1", &["ambiguous", "`I.left.small`", "`I.right.small`"]),
        ("table_add left.small go 2 => 1", &[]),
        ("table_add two sned 2 => 1", &["Invalid action name (sned)", "did you mean `I.send`"]),
        ("table_add two go 2 => 1", &["go"]),
        ("table_add two send 2 1 1", &["send on table two takes 1 key and 1 parameter, but 3 words follow"]),
        ("table_add two send => 1", &["needs 1 key fields", "found 0"]),
        ("table_add two send 2 3 => 1", &["needs 1 key fields (hdr.h.a (exact, bit<16>)), found 2"]),
        ("table_add two send 2 =>", &["1 parameters", "port bit<9>", "found 0"]),
        ("table_add two send 2 => 1 1", &["1 parameters", "found 2"]),
        ("table_add two send 2 => 512", &["port", "`512` does not fit in 9 bits", "511"]),
        ("table_add two send 65536 => 1", &["`65536` does not fit in 16 bits", "65535"]),
        ("table_add two send 10.0.0.1 => 1", &["`10.0.0.1`", "an IPv4 address is for 32 bits", "bit<16>"]),
        ("table_add two send 02:00:00:00:00:01 => 1", &["a MAC address is for 48 bits", "bit<16>"]),
        ("table_add two send -1 => 1", &["`-1` is negative"]),
        ("table_add two send two => 1", &["`two` is not a number"]),
        ("table_add two send 0x => 1", &["`0x` is not a number"]),
        ("table_add two send 1 => 2", &["DUPLICATE_ENTRY", "handle 0"]),
        ("table_add tern send 1&&&0xff 02:00:00:00:00 => 1 5", &["is not a MAC address"]),
        ("table_add tern send 1&&&0xff 02:00:00:00:00:01 => 1", &["priority"]),
        ("table_add tern send 1 02:00:00:00:00:01 => 1 5", &["expected value&&&mask"]),
        ("table_add pre send 1 => 1", &["expected value/prefix-length"]),
        ("table_add pre send 1/17 => 1", &["17", "16"]),
        ("table_add ports send 5 => 1 1", &["expected low->high"]),
        ("table_add ports send 5->4 => 1 1", &["low end is above its high end"]),
        ("table_add fixed send 2 => 1", &["IMMUTABLE_TABLE_ENTRIES", "const entries"]),
        ("table_set_default fixed send 1", &["DEFAULT_ACTION_IS_CONST"]),
        ("table_set_default two send 512", &["does not fit in 9 bits"]),
        ("table_delete two 77", &["INVALID_HANDLE", "77"]),
        ("table_modify two send 77 => 1", &["INVALID_HANDLE", "77"]),
        ("register_write reg 8 1", &["8", "0 to 7"]),
        ("register_write reg 0 65536", &["does not fit in 16 bits"]),
        ("register_write gre 0 1", &["Invalid register name (gre)", "reg"]),
        ("counter_read c 0", &["Invalid counter name (c)", "the program has no counter"]),
        ("load_new_config_file 1", &["not supported here", "load_new_config_file"]),
        ("mc_mgrp_create 0", &["0", "1 to 65535"]),
        ("\u{fffd}\u{0}", &["Unknown syntax"]),
    ] {
        let commands = dir.write("bad.cmd", format!("# a comment\n\n{good}{line}\n"));
        dir.write("prog.p4", PROGRAM);
        let program = dir.file("prog.p4");
        let output = run(&["trace", &program, "--commands", &commands, "0001"]);
        if says.is_empty() {
            output.expect_status(0);
            continue;
        }
        assert_eq!(output.status, 1, "{line}\n{}{}", output.stdout, output.stderr);
        let output = output.says(says);
        assert!(output.stderr.contains("bad.cmd:4"), "{line}: no line number\n{}", output.stderr);
        // Every command that loads entries refuses before it does anything.
        assert_eq!(output.stdout, "", "{line}");
    }
}

#[test]
fn a_full_table_reports_its_size() {
    let dir = TempDir::new("full");
    let three = "table_add two send 1 => 1\ntable_add two send 2 => 1\ntable_add two send 3 => 1\n";
    dir.write("three.cmd", three);
    let output = p4jet_words(&dir, "trace PROG --commands DIR/three.cmd 0001").expect_status(1);
    output.says(&["three.cmd:3", "TABLE_FULL", "all of its 2 entries"]);
}

#[test]
fn files_that_are_not_entries() {
    let dir = TempDir::new("files");
    dir.write("binary.cmd", [0xff, 0xfe, 0]);
    dir.write("empty.cmd", "");
    dir.write("comments.cmd", "# nothing\n\n   # more of it\r\n");
    p4jet_words(&dir, "trace PROG --commands DIR/missing.cmd 00")
        .expect_status(1)
        .says(&["missing.cmd", "No such file"]);
    p4jet_words(&dir, "trace PROG --commands DIR 00").expect_status(1).says(&["cannot read"]);
    p4jet_words(&dir, "trace PROG --commands DIR/binary.cmd 00").expect_status(1).says(&["binary.cmd"]);
    p4jet_words(&dir, "trace PROG --commands DIR/empty.cmd 00").expect_status(0);
    p4jet_words(&dir, "trace PROG --commands DIR/comments.cmd 00").expect_status(0);
}

/// A bad line leaves nothing partly applied: a running switch shows it. `pcap` input ends the run, so this one reads its
/// commands from a file and forwards nothing at all.
#[test]
fn a_bad_line_stops_before_the_first_packet() {
    let dir = TempDir::new("half");
    dir.write("bad.cmd", "table_set_default two send 2\ntable_add two send 1 => 600\n");
    dir.write("in.pcap", pcap(&[vec![0; 60]]));
    let output =
        p4jet_words(&dir, "run PROG -i 0@pcap:DIR/in.pcap, -i 2@pcap:,DIR/out.pcap --commands DIR/bad.cmd");
    let output = output.expect_status(1).says(&["bad.cmd:2", "does not fit in 9 bits"]);
    assert!(!output.stderr.contains("packets received"), "{}", output.stderr);
    assert!(
        !std::path::Path::new(&dir.file("out.pcap")).exists(),
        "the output was created although nothing ran"
    );
}

#[test]
fn packet_tests_that_fail() {
    let dir = TempDir::new("stf");
    let pass = "add two hdr.h.a:0x0001 send(port:2)\npacket 0 0001000000000000000000\nexpect 2\n";
    for (script, prints) in [
        ("packet 0 0001\nexpcet 2 00\n", &["line 2", "expcet", "did you mean `expect`"] as &[&str]),
        ("packet 0 000g\n", &["line 1", "`g`"]),
        ("packet 0 000\n", &["line 1"]),
        ("packet\n", &["line 1", "port"]),
        ("add nosuch hdr.h.a:1 send(port:1)\n", &["line 1", "nosuch"]),
        ("add two hdr.h.x:1 send(port:1)\n", &["line 1", "hdr.h.x"]),
        ("add two hdr.h.a:1 send(prot:1)\n", &["line 1", "prot"]),
        ("add two hdr.h.a:1 send()\n", &["line 1", "port"]),
        ("add two hdr.h.a:0x10000 send(port:1)\n", &["line 1", "16 bits"]),
        ("swap_configs\n", &["line 1", "not supported here"]),
        ("packet 0 0002000000000000000000\nexpect 2 00\n", &["line 2"]),
        (
            "add two hdr.h.a:1 send(port:2)\npacket 0 0001000000000000000000\nexpect 2 0003\n",
            &["line 3", "hdr.h.a is 0x0001, expected 0x0003"],
        ),
        (
            "add two hdr.h.a:1 send(port:2)\npacket 0 0001000000000000000000\nexpect 2 0001$\n",
            &["line 3", "11 bytes, expected 2"],
        ),
    ] {
        dir.write("bad.stf", script);
        for engine in ["jit", "interp", "both"] {
            let output = p4jet_words(&dir, &format!("test PROG DIR/bad.stf --engine {engine}"));
            assert_eq!(output.status, 1, "{script}\n{}{}", output.stdout, output.stderr);
            let output = output.prints(&["FAIL bad: ", "0 passed, 1 failed"]).prints(prints);
            assert_eq!(output.stdout.lines().last(), Some("0 passed, 1 failed"), "{}", output.stdout);
            // Standard error shows the place; standard output has the message.
            assert!(!output.stderr.contains("error:"), "{script}\n{}", output.stderr);
        }
    }
    // The other errors are on standard error only. Commands that packet tests refuse are no choices.
    dir.write("bad.stf", "loda x\nswap_confgs\n");
    let output = p4jet_words(&dir, "test PROG DIR/bad.stf").expect_status(1);
    let output = output.prints(&["line 1, column 1: found `loda`", "(and 1 more)"]);
    let output = output.says(&["bad.stf:1:1\n", "error: found `swap_confgs`", "bad.stf:2:1\n"]);
    let all = format!("{}{}", output.stdout, output.stderr);
    assert!(!all.contains("`load`") && !all.contains("did you mean"), "{all}");
    // The others are still run.
    dir.write("good.stf", pass);
    let output = p4jet_words(&dir, "test PROG DIR/bad.stf DIR/good.stf DIR/missing.stf DIR").expect_status(1);
    output.prints(&["FAIL bad", "PASS good\n", "FAIL missing: cannot read", "1 passed, 3 failed"]);
    p4jet_words(&dir, "test PROG DIR/good.stf --engine both")
        .expect_status(0)
        .prints(&["PASS good\n1 passed, 0 failed"]);
}

/// An empty file is not a passed test. One with only packets is: nothing may leave by the ports they name.
#[test]
fn packet_tests_that_test_nothing() {
    let dir = TempDir::new("nothing");
    for script in ["", "\n", "# only a comment\n"] {
        dir.write("nothing.stf", script);
        let output = p4jet_words(&dir, "test PROG DIR/nothing.stf").expect_status(1);
        output.prints(&["FAIL nothing: ", "nothing was tested", "0 passed, 1 failed"]);
    }
    dir.write("dropped.stf", "packet 0 0001000000000000000000\n");
    let output = p4jet_words(&dir, "test PROG DIR/dropped.stf").expect_status(0);
    output.prints(&["PASS dropped (no expectation)\n1 passed, 0 failed, 1 without an expectation\n"]);
    dir.write("returns.stf", "setdefault two send(port:0)\npacket 0 0001000000000000000000\n");
    p4jet_words(&dir, "test PROG DIR/returns.stf").expect_status(1).prints(&["FAIL returns: ", "port 0"]);
}

#[test]
fn frames_of_any_size_can_be_traced() {
    let dir = TempDir::new("sizes");
    dir.write("prog.p4", PROGRAM);
    for bytes in [1, 9, 10, 1514, 9216, 60_000] {
        let output = run(&["trace", &dir.file("prog.p4"), &"00".repeat(bytes)]).expect_status(0);
        output.prints(&[&format!("packet of {bytes} bytes")]);
    }
    // No digits, no frame.
    let output = run_command(p4jet().args(["trace", &dir.file("prog.p4"), ""]));
    assert!(output.status == 0 || output.status == 2, "{}", output.stderr);
}

/// A FIFO without a reader or writer is refused at once for every option that names a file, and the message says that it is a
/// FIFO.
#[test]
fn fifos_are_refused_where_files_are_needed() {
    let dir = TempDir::new("fifos");
    let fifo = dir.file("ff");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs");
    assert!(made.success());
    dir.write("prog.p4", PROGRAM);
    dir.write("includes.p4", "#include \"ff\"\n");
    let program = dir.file("prog.p4");
    let man = dir.file("man");
    std::fs::create_dir(&man).expect("created");
    let made = std::process::Command::new("mkfifo").arg(format!("{man}/p4jet-run.1")).status();
    assert!(made.expect("mkfifo runs").success());
    let capture = format!("0@{fifo}");
    let cases: &[&[&str]] = &[
        &["test", &program, &fifo],
        &["check", &fifo],
        &["check", &dir.file("includes.p4")],
        &["check", &program, "--complexity", "--svg", &fifo],
        &["check", &program, "--complexity", "--dot", &fifo],
        &["run", &program, "-i", "0@mem", "--state", &fifo],
        &["run", &program, "-i", "0@mem", "--commands", &fifo],
        &[
            "run",
            &program,
            "-i",
            "0@mem",
            "--p4runtime",
            "0",
            "--p4runtime-cert",
            &fifo,
            "--p4runtime-key",
            &fifo,
        ],
        &["run", &program, "-i", "0@mem", "--log-file", &fifo, "--log", "text"],
        &["run", &program, "-i", "0@mem", "--capture", &capture],
        &["lb", "--svg", &fifo, "--hosts", "16", "--repetitions", "1"],
        &["predict", "--profile", &fifo, "--show"],
        &["man", &man],
    ];
    for words in cases {
        let mut command = p4jet();
        command.args(*words).stdin(std::process::Stdio::null());
        let output = run_command(&mut command);
        let printed = format!("{}{}", output.stdout, output.stderr);
        assert!((1..=3).contains(&output.status), "{words:?}: {}", output.status);
        assert!(printed.contains("is a FIFO"), "{words:?}: {printed}");
    }
    let output = run(&["check", &dir.file("includes.p4")]).expect_status(1);
    output.says(&["cannot read include file `ff`", "is a FIFO"]);
    // Nothing was created next to an invalid state file.
    assert!(!std::path::Path::new(&format!("{fifo}.journal")).exists());
}
