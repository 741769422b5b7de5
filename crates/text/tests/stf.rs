//! Packet tests: the language, and what running a script means.

use crate::common;

use crate::common::control;
use p4jet_dataplane::{EngineKind, Processed};
use p4jet_text::Commands;
use p4jet_text::stf::{Device, Statement, StatementKind, StfOutcome, parse, run, run_traced};
use std::cell::Cell;

// ---------------------------------------------------------------------------------------------------------------------
// The language

fn good(text: &str) -> Vec<Statement> {
    parse(text).unwrap_or_else(|e| panic!("{}", e[0].render("test.stf")))
}

#[test]
fn reads_every_statement() {
    let text = r##"
# exact and lpm keys
add pipe.l2 hdr.eth.dst:0x020000000001 pipe.out(port:4)   # trailing comment
ADD pipe.routes hdr.ip4.dst:0xC63364** pipe.via(nh:7, port:2) = R1
add pipe.acl 20 hdr.ip4.proto:0x06 hdr.tcp.dport:0x00** pipe.deny()
add pipe.t meta.k:0b1*0 hdr.vlan[0].$valid$:1 pipe.out(port:1)
add "pipe.tbl-7" "hdr.x.f":0x0A "pipe.go"("p":3)
add t k:1/8 l:1&&&3 m:1024->0x7ff n:10.0.0.1 a(1, x=2 y:3)
setdefault pipe.acl pipe.permit()
packet 0 020000000001 0200000000FF 0800 45
expect 4 020000000001 ************ 0800 45$
Expect 2
no_packet
wait
remove all
check_counter pipe.cnt(7) packets == 3
check_counter pipe.hits($R1) bytes >= 240
check_counter pipe.hits(R1)
check_register pipe.reg(2) >= 0x10
counter_read c 1
counter_write c 1 2 3
mirroring_add 9 3
mirroring_add_mc 9 3
mirroring_delete 9
mirroring_get 9
mc_mgrp_create 11
mc_node_create 400 5 6 7
mc_node_update 0 5
mc_node_associate 11 0
register_read "pipe.reg" 2#comment
register_write pipe.reg 2 77
register_reset pipe.reg
meter_get_rates m 1
meter_set_rates m 1 0.000005:4 2:5
meter_array_set_rates m 0.000006:7 0.00008:9
"##;
    let script = good(text);
    assert_eq!(script.len(), 33);
    assert_eq!(script[0].line, 3);
    let StatementKind::Add { table, priority, matches, call, label } = &script[3].kind else { panic!() };
    assert_eq!((table.text.as_str(), *priority, label), ("pipe.t", None, &None));
    assert_eq!(matches[1].field.text, "hdr.vlan[0].$valid$");
    assert_eq!(call.action.text, "pipe.out");
    let StatementKind::Add { label, .. } = &script[1].kind else { panic!() };
    assert_eq!(label.as_deref(), Some("R1"));
    let StatementKind::Expect { port: 4, column: 8, pattern: Some(pattern) } = &script[8].kind else {
        panic!()
    };
    assert!(pattern.exact && pattern.nibbles.len() == 30 && pattern.nibbles[12].is_none());
    let words = |statement: &Statement| match &statement.kind {
        StatementKind::Command { words } => {
            words.iter().map(|w| format!("{}@{}", w.text, w.column)).collect::<Vec<_>>().join(" ")
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(words(&script[27]), "register_read@1 pipe.reg@15 2@26");
    assert_eq!(words(&script[32]), "meter_array_set_rates@1 m@23 0.000006:7@25 0.00008:9@36");
}

#[test]
fn errors_name_place_found_and_expected() {
    let cases = [
        ("pakcet 0 00", 1, "found `pakcet`, expected a statement: did you mean `packet`?"),
        ("%", 1, "found `%`, expected a statement such as `add`, `packet` or `expect`"),
        ("packet x 00", 8, "found `x`, expected a port number"),
        ("packet 0", 9, "found the end of the line, expected the packet's bytes in hex"),
        ("packet 0 012", 10, "found 3 hex digits, expected whole bytes"),
        ("packet 0 01 # no", 13, "found a comment after packet data, expected hex digits"),
        ("packet 0 0*", 11, "found `*`, expected hex digits"),
        ("expect 0 0x12", 11, "found `x`, expected hex digits, `*` or a final `$`"),
        ("expect 0 00$ 11", 14, "found `11`, expected the end of the line after `$`"),
        ("packet 99999999999 00", 8, "found 99999999999, expected a port number of at most 4294967295"),
        ("add t k:0xZ a()", 9, "found `0xZ`, expected hex digits or stars after the prefix"),
        ("add t k:5* a()", 9, "found `5*`, expected a value"),
        ("add t k 5 a()", 9, "found `5`, expected `:` after a key field or `(` after an action"),
        (
            "add t k:5",
            10,
            "found the end of the line, expected a key field (`name:value`) or an action (`name(…)`)",
        ),
        ("add t a(x:1", 12, "found the end of the line, expected `,` or `)`"),
        ("add t a(x)", 10, "found `)`, expected `:` and the value of the argument"),
        ("add t a() b", 11, "found `b`, expected the end of the statement"),
        ("add \"t a()", 5, "found a quote that nothing closes on this line"),
        ("add t[x] a()", 7, "found `x`, expected the index of a header in its stack"),
        ("remove some", 8, "found `some`, expected `all`"),
        ("wait x", 6, "found `x`, expected a number of microseconds"),
        ("wait 1 2", 8, "found `2`, expected the end of the statement"),
        ("check_counter c(1) pkts == 3", 20, "found `pkts`, expected `packets` or `bytes`"),
        ("check_counter c(1) packets = 3", 28, "found `=`, expected one of `==`, `!=`, `<`, `<=`, `>`, `>=`"),
        ("check_counter c 1", 17, "found `1`, expected `(` and an index"),
        ("check_register r(1)", 20, "found the end of the line, expected one of `==`, `!=`"),
        ("check_register r(1) == 1*", 24, "found `1*`, expected a number"),
        ("check_register r[x](1) == 1", 18, "found `x`, expected the index of a header in its stack"),
        ("check_counter c(4294967296)", 17, "found 4294967296, which is too large for an index"),
        ("counter_rad c 1", 1, "found `counter_rad`, expected a statement: did you mean `counter_read`?"),
        ("register_read \"a b\" 1", 15, "found `a b`, expected a name without blanks and `#`"),
        ("register_read \"a", 15, "found a quote that nothing closes on this line"),
    ];
    for (text, column, expected) in cases {
        let error = parse(&format!("# first line\n{text}")).unwrap_err().remove(0);
        assert!(error.message.starts_with(expected), "{text}\n  {}", error.message);
        assert_eq!((error.line, error.column()), (2, column), "{text}");
        assert!(error.span.end <= text.len(), "{text}");
    }
    assert_eq!(
        parse("wait\nremove some").unwrap_err()[0].render("x.stf"),
        "error: found `some`, expected `all`\n --> x.stf:2:8\n  |\n2 | remove some\n  |        ^^^^\n"
    );
}

#[test]
fn every_wrong_line_is_reported() {
    let errors = parse("pakcet\nwait\nexpect x\nwait y").unwrap_err();
    assert_eq!(errors.iter().map(|e| e.line).collect::<Vec<_>>(), [1, 3, 4]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Running

/// Sends every packet to the ports that its first byte has bits for, without that byte; none is a drop.
struct Fanout;

impl Device for Fanout {
    fn process(&mut self, _: u32, frame: &[u8]) -> Processed {
        let ports = (0..8).filter(|port| frame[0] >> port & 1 == 1);
        let sent: Vec<_> = ports.map(|port| (port, frame[1..].to_vec())).collect();
        let dropped = if sent.is_empty() { vec!["no route".to_string()] } else { vec![] };
        Processed { sent, dropped }
    }
}

fn outcome(text: &str) -> StfOutcome {
    run(&good(text), &control(), &mut Fanout)
}

#[track_caller]
fn check(text: &str, report: &str) {
    let outcome = outcome(text);
    assert_eq!(outcome.report("t"), report, "{}", outcome.details());
}

#[test]
fn compares_port_by_port_in_order() {
    check("packet 0 06 aa\nexpect 1 aa\nexpect 2 aa$", "PASS t");
    check("expect 1 aa\npacket 0 02 aa\n", "PASS t");
    check("packet 0 02 aabb\npacket 0 02 cc\nexpect 1 a\nexpect 1", "PASS t");
    check("packet 0 02 aabb\nexpect 1 aa$", "FAIL t: line 2: port 1, packet 1: 2 bytes, expected 1");
    check("packet 0 02 aabb\nexpect 1 aa*c", "FAIL t: line 2: port 1, packet 1: byte 1 is bb, expected *c");
    check(
        "packet 0 02 01\npacket 0 02 02\nexpect 1 02\nexpect 1 01",
        "FAIL t: line 3: port 1, packet 1: byte 0 is 01, expected 02; it is what line 4 expects (and 1 more)",
    );
}

#[test]
fn explains_why_no_packet_came() {
    check(
        "packet 0 00 aa\nexpect 1 aa",
        "FAIL t: line 2: port 1, packet 1: expected a packet, none came (the packet of line 1 was dropped: no route)",
    );
    check(
        "packet 0 04 aa\nexpect 1 aa",
        "FAIL t: line 2: port 1, packet 1: expected a packet, none came (the packet of line 1 left by port 2 instead)",
    );
    check(
        "packet 0 04 ab\nexpect 1 aa",
        "FAIL t: line 2: port 1, packet 1: expected a packet, none came (the packet of line 1 left by port 2)",
    );
}

#[test]
fn one_more_packet_fails_on_ports_that_are_mentioned() {
    check(
        "packet 0 02 aa\npacket 0 02 bb\nexpect 1 aa",
        "FAIL t: line 2: expected no more packets, but port 1, packet 2: bb came (from the packet of line 2)",
    );
    check("packet 0 04 aa", "PASS t");
    check(
        "packet 2 04 aa",
        "FAIL t: line 1: expected no more packets, but port 2, packet 1: aa came (from the packet of line 1)",
    );
}

#[test]
fn no_packet_looks_at_every_port() {
    check("packet 0 00 aa\nno_packet", "PASS t");
    check("packet 0 02 aa\nexpect 1\nno_packet", "PASS t");
    check(
        "packet 0 04 aa\nno_packet",
        "FAIL t: line 2: expected no packet, but port 2, packet 1: aa came (from the packet of line 1)",
    );
}

#[test]
fn shows_expected_and_got() {
    let outcome = outcome("packet 3 02 001122\nexpect 1 0012\nexpect 1 00");
    let failure = "line 2: port 1, packet 1: byte 1 is 11, expected 12";
    assert_eq!(outcome.report("t"), format!("FAIL t: {failure} (and 1 more)"));
    // Both are printed, without repetition.
    assert_eq!(
        outcome.details(),
        "  expected 0012\n  got      001122\n             ^^ byte 1\n\
         line 3: port 1, packet 2: expected a packet, none came (the packet of line 1 left by port 1)\n"
    );
    assert_eq!(self::outcome("wait").details(), "");
}

/// A script whose tables change after the packet that fails.
const CHANGES_LATER: &str = "add l2 dst:1 out(port:4)
packet 0 000000000001 000000000002 0800
remove all
add l2 dst:1 out(port:5)
packet 0 000000000001 000000000002 0800
add l2 dst:2 deny()
expect 4 000000000001 000000000003
expect 5 000000000001 000000000002
check_register cells(0) == 0
check_counter seen(1) packets == 2
";

#[test]
fn traces_show_the_tables_that_the_packet_met() {
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let control = control();
        let mut worker = control.switch().worker(engine, 0).unwrap();
        let made = Cell::new(0);
        let fresh = || {
            made.set(made.get() + 1);
            Ok(common::control())
        };
        let outcome = run_traced(&good(CHANGES_LATER), &control, &mut worker, &fresh);
        let report = outcome.report("t");
        assert_eq!(
            report,
            "FAIL t: line 7: port 4, packet 1: hdr.eth.src is 00:00:00:00:00:02, expected 00:00:00:00:00:03"
        );
        let details = outcome.details();
        // The packet matched the first entry, whose action data is 4, not the entry that the table has at the end.
        assert!(details.contains("action ingress.out(port = 4)\n"), "{details}");
        assert!(details.contains("leave by port 4\n") && !details.contains("note:"), "{details}");
        assert_eq!(made.get(), 1);
        // The counter of the switch under test has the script's packets only.
        assert_eq!(control.execute("counter_read seen 1").unwrap(), "seen[1]= (28 bytes, 2 packets)\n");
    }
}

#[test]
fn a_script_that_passes_is_not_replayed() {
    let control = control();
    let mut worker = control.switch().worker(EngineKind::Interp, 0).unwrap();
    let text = CHANGES_LATER.replace("000000000003", "000000000002");
    let outcome = run_traced(&good(&text), &control, &mut worker, &|| panic!("nothing failed"));
    assert_eq!(outcome.report("t"), "PASS t");
}

#[test]
fn trace_reports_a_different_end() {
    let script = good("packet 3 10 00112233445566778899aabb 0800\nexpect 3");
    let outcome = run_traced(&script, &control(), &mut Fanout, &|| Ok(control()));
    let note = "  note: the trace is of the interpreter, where the packet was dropped: drop; in the test it left by port 4\n";
    assert!(outcome.details().ends_with(note), "{}", outcome.details());
    let outcome = run_traced(&script, &control(), &mut Fanout, &|| Err("no memory".to_string()));
    assert_eq!(outcome.details(), "  no trace: no memory\n");
}

#[test]
fn refuses_ports_that_the_program_cannot_distinguish() {
    check("packet 511 00\nno_packet", "PASS t");
    let range = "expected one that the program can distinguish: 0 to 511";
    check("packet 0 00\n packet 600 02 aa", &format!("FAIL t: line 2: column 9: found port 600, {range}"));
    check("packet 0 00\nexpect  512 aa", &format!("FAIL t: line 2: column 9: found port 512, {range}"));
}

#[test]
fn adds_entries() {
    let control = control();
    let text = "add l2 hdr.eth.dst:0x1 ingress.out(port:4)
                add ipv4_lpm dst:0xC63364** forward(port:2, dst:7)
                add ipv4_lpm forward(3, 2)
                add acl 20 hdr.ipv4.src:0x0a****** hdr.tcp.dport:1024->2047 out(port:1)
                add \"acl\" 30 \"ipv4.src\":3 proto:0x06 deny()
                setdefault ipv4_lpm deny()";
    let outcome = run(&good(text), &control, &mut Fanout);
    assert_eq!(outcome.report("t"), "PASS t");
    let dump = control.execute("table_dump ipv4_lpm").unwrap();
    assert!(dump.contains("c6336400/24\nAction entry: ingress.forward - 000000000007, 0002\n"), "{dump}");
    assert!(dump.contains("00000000/0\nAction entry: ingress.forward - 000000000003, 0002\n"), "{dump}");
    assert!(dump.contains("default entry\nAction entry: ingress.deny - \n"), "{dump}");
    let dump = control.execute("table_dump acl").unwrap();
    let expected = "* hdr.ipv4.src        : TERNARY   0a000000 &&& ff000000\n\
         * hdr.tcp.dport       : RANGE     0400 -> 07ff\n\
         * hdr.ipv4.proto      : TERNARY   00 &&& 00\n\
         * hdr.ipv6.dst        : EXACT     00000000000000000000000000000000\n\
         Priority: 9980\n\
         Action entry: ingress.out - 0001\n";
    assert!(dump.contains(expected), "{dump}");
    assert!(dump.contains("Priority: 9970\n"), "the larger number wins: {dump}");
    let outcome = run(&good("remove all"), &control, &mut Fanout);
    assert!(outcome.passed());
    assert_eq!(control.execute("table_num_entries acl").unwrap(), "0\n");
    assert_eq!(control.execute("table_num_entries fixed").unwrap(), "1\n", "const entries stay");
}

#[test]
fn priorities_beyond_ten_thousand_keep_their_order() {
    let control = control();
    let outcome = run(&good("add acl 2147483647 deny()\nadd acl 3 deny()"), &control, &mut Fanout);
    assert!(outcome.passed());
    let dump = control.execute("table_dump acl").unwrap();
    assert!(dump.contains("Priority: 0\n") && dump.contains("Priority: 2147483644\n"), "{dump}");
    let range = "expected 0 to 2147483647";
    let add = "add acl 3 deny()\nadd acl 2147483648 hdr.ipv4.src:1 deny()";
    check(add, &format!("FAIL t: line 2: column 5: found priority 2147483648, {range}"));
}

#[test]
fn counters_and_registers() {
    let text = "counter_write seen 3 10 640
                check_counter ingress.seen(3) packets == 10
                check_counter seen(3) bytes >= 640
                check_counter seen(3)
                add l2 hdr.eth.dst:1 out(port:4)
                add l2 hdr.eth.dst:2 out(port:4) = R1
                counter_write hits 1 7 70
                check_counter hits($R1) packets == 7
                check_counter hits(1) bytes < 71
                register_write cells 2 77
                register_read cells 2
                check_register cells(2) == 0x4d
                check_register ingress.cells(2) < 78
                register_reset cells
                check_register cells(2) == 0
                register_write wide 0 0xfffffffffffffffffffffffff
                check_register wide(0) > 0xffffffffffffffff
                counter_read seen 3";
    let outcome = outcome(text);
    assert_eq!(outcome.report("t"), "PASS t");
    assert_eq!(outcome.output, "cells[2]= 77\nseen[3]= (640 bytes, 10 packets)\n");
    check(
        "check_counter seen(1) packets == 3",
        "FAIL t: line 1: counter seen(1) has 0 packets, expected == 3",
    );
    check(
        "counter_write seen 1 1 1\ncheck_counter seen(1) packets == 3\ncheck_counter seen(1) bytes == 2",
        "FAIL t: line 2: counter seen(1) has 1 packet, expected == 3 (and 1 more)",
    );
    check("check_register cells(0) > 3", "FAIL t: line 1: register cells(0) is 0 (0x0), expected > 3");
    check(
        "check_register cells(0) == 0x10000",
        "FAIL t: line 1: column 28: `0x10000` does not fit in 16 bits: the largest value is 0xffff",
    );
    check(
        "check_register cells(4) == 0",
        "FAIL t: line 1: Invalid register operation (INVALID_INDEX): found index 4, expected 0 to 3",
    );
    check(
        "check_counter seen(8)",
        "FAIL t: line 1: Invalid counter operation (INVALID_INDEX): found index 8, expected 0 to 7",
    );
    check("check_counter hits($X) packets == 0", "FAIL t: line 1: unknown label X: no entry has a label");
}

#[test]
fn a_failed_check_does_not_end_the_script() {
    let outcome = outcome("check_counter seen(1) packets == 3\npacket 0 02 aa\nexpect 1 ab");
    let lines: Vec<_> = outcome.failures.iter().map(|f| f.line).collect();
    assert_eq!((lines, outcome.checks, outcome.packets), (vec![1, 3], 2, 1));
}

#[test]
fn wrong_statements_end_the_script() {
    let cases = [
        (
            "swap_configs",
            "column 1: not supported here: swap_configs (a running switch does it, at its prompt or by p4jet ctl)",
        ),
        ("add nope a()", "column 5: Invalid table name (nope): "),
        ("add l2 hdr.eth.dst:1 nope()", "column 22: Invalid action name (nope): "),
        ("add l2 dts:1 out(port:1)", "column 8: Invalid key field name (dts): did you mean `hdr.eth.dst`?"),
        ("add l2 dst:1 dst:2 out(port:1)", "column 14: Invalid match key: field hdr.eth.dst is given twice"),
        (
            "add l2 dst:1/8 out(port:1)",
            "column 8: Invalid match key: field hdr.eth.dst (exact, bit<48>): found a prefix",
        ),
        ("add l2 dst:1 out()", "column 14: Action out needs the parameter port"),
        ("add l2 dst:1 out(prt:1)", "column 18: Action out has no parameter prt: did you mean `port`?"),
        ("add l2 dst:1 out(1, 2)", "column 21: Action out needs 1 parameter, found 2"),
        (
            "add l2 dst:1 out(port:512)",
            "column 23: Invalid runtime data: parameter port (bit<9>): `512` does not fit",
        ),
        (
            "add l2 dst:1 out(port:1, port:2)",
            "column 26: Invalid runtime data: parameter port is given twice",
        ),
        (
            "add l2 dst:1 NoAction()",
            "Invalid table operation (INVALID_ACTION_NAME): `NoAction` may only be the default action of `ingress.l2` (@defaultonly)",
        ),
        (
            "add acl deny()",
            "column 5: table ingress.acl has ternary, range or optional keys: expected a priority",
        ),
        ("add fixed out(port:1)", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES)"),
        ("setdefault fixed NoAction()", "Invalid table operation (DEFAULT_ENTRY_IS_CONST)"),
        ("setdefault acl out(port:1)", "Invalid table operation (INVALID_ACTION_NAME)"),
        ("register_write bit 1 2", "column 22: Error: `2` does not fit in 1 bit: the largest value is 0x1"),
        ("register_write cells 1 0x10000", "column 24: Error: `0x10000` does not fit in 16 bits"),
        ("register_write 'x' 1 1", "column 16: Invalid register name ('x')"),
        ("  counter_read seen", "Error: expected an index at the end of the line; usage: counter_read"),
        ("  counter_read seen 1 == 4", "column 23: Error: found `==` after the last argument"),
        ("table_add l2 out 1 => 2 3", "column 25: Error: Action out needs 1 parameters"),
    ];
    for (line, expected) in cases {
        let outcome = outcome(&format!("{line}\npacket 0 01 aa\nexpect 1"));
        let report = outcome.report("t");
        assert!(report.starts_with(&format!("FAIL t: line 1: {expected}")), "{line}\n  {report}");
        assert_eq!((outcome.failures.len(), outcome.packets), (1, 0), "{line}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// With real workers

#[test]
fn both_engines_run_a_script() {
    let text = "add l2 hdr.eth.dst:0x020000000001 ingress.out(port:4) = A
                packet 0 020000000001 020000000002 0800 4500
                expect 4 020000000001 ************ 0800 45**$
                packet 0 0200000000ff 020000000002 0800
                packet 0 0200
                no_packet
                check_counter hits($A) packets == 1
                check_counter hits($A) bytes == 16
                remove all
                packet 4 020000000001 020000000002 0800 4500
                wait
                no_packet
                add l2 hdr.eth.dst:0x020000000001 ingress.out(port:3) = B
                check_counter hits($B) packets == 0
                packet 4 020000000001 020000000002 0800 4500
                expect 3";
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let control = control();
        let mut worker = control.switch().worker(engine, 0).unwrap();
        let outcome = run(&good(text), &control, &mut worker);
        assert_eq!(outcome.report("t"), "PASS t", "{engine:?}\n{}", outcome.details());
    }
}
