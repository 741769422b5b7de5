//! docs/differences.md is true: each of its entries has a test here, and each test has an entry.

use crate::common::{TempDir, root, run};

/// The variable parts of a program.
#[derive(Default)]
struct Parts<'a> {
    meta: &'a str,
    states: &'a str,
    declarations: &'a str,
    statements: &'a str,
    deparser: &'a str,
    emits: &'a str,
}

fn program(parts: &Parts) -> String {
    let Parts { meta, states, declarations, statements, deparser, emits } = parts;
    let states =
        if states.is_empty() { "state start { p.extract(h.a); transition accept; }" } else { states };
    format!(
        r#"#include <core.p4>
#include <v1model.p4>
header a_t {{ bit<8> x; int<8> y; }}
header b_t {{ bit<16> v; }}
header v_t {{ varbit<64> v; }}
header_union u_t {{ a_t a; b_t b; }}
header w_t {{ varbit<16> p; varbit<16> q; }}
struct pair_t<T> {{ T first; bit<8> second; }}
struct headers_t {{ a_t a; a_t a2; v_t v; u_t u; a_t[2] s; u_t[2] us; w_t w; }}
struct meta_t {{ bit<32> m; {meta} }}
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {{ {states} }}
control V(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{
    {declarations}
    apply {{
        s.egress_spec = 1;
{statements}
    }}
}}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {{ apply {{}} }}
control C(inout headers_t h, inout meta_t m) {{ apply {{}} }}
control D(packet_out p, in headers_t h) {{ {deparser} apply {{ p.emit(h.a); p.emit(h.u); {emits} }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#
    )
}

/// Checks that a packet test passes on both engines.
fn passes(parts: &Parts, script: &str) {
    let dir = TempDir::new("differences");
    let path = dir.write("program.p4", program(parts));
    let script = dir.write("packets.stf", script);
    run(&["test", "--Wdisable", "--engine", "both", &path, &script])
        .expect_status(0)
        .prints(&["1 passed, 0 failed"]);
}

fn refuses(parts: &Parts, says: &str) {
    let dir = TempDir::new("differences");
    let path = dir.write("program.p4", program(parts));
    run(&["check", "--Wdisable", &path]).expect_status(1).says(&["error[", says, "program.p4:"]);
}

/// Checks that a test exists in another file, because it needs more than this one has.
fn tested_in(file: &str, test: &str) {
    let text = std::fs::read_to_string(root().join(file)).expect("the file with the test");
    assert!(text.contains(test), "{file} has no `{test}`");
}

/// The start of an entry of the page, and its test.
type Entry = (&'static str, fn());

const ENTRIES: &[Entry] = &[
    ("**A member of a header union.**", || {
        passes(
            &Parts { statements: "h.u.b = { 16w0x1234 }; h.u.a.setInvalid();", ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\n",
        );
        passes(
            &Parts { statements: "h.u.b = { 16w0x1234 };", ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 12 34 $\n",
        );
    }),
    ("**Elements that a header stack loses.**", || {
        let states =
            "state start { p.extract(h.a); p.extract(h.s.next); p.extract(h.s.next); transition accept; }";
        passes(
            &Parts { states, statements: "h.s.pop_front(1); h.a.x = h.s[1].x;", ..Parts::default() },
            "packet 0 01 02 03 04 05 06\nexpect 1 00 02 $\n",
        );
    }),
    ("**Values that were never written.**", || {
        let states = "state start { p.extract(h.a); transition select(h.a.x) { 1: more; default: accept; } }
            state more { p.extract(h.a2); transition accept; }";
        passes(
            &Parts { states, statements: "h.a.x = h.a2.x;", ..Parts::default() },
            "packet 0 01 02 07 08\nexpect 1 07 02 $\npacket 0 02 02\nexpect 1 00 02 $\n",
        );
    }),
    ("**Comments that begin with `#` and end in a macro's name.**", || {
        let statements = "#define h_of(x)\n        h.a.x =\n# see h_of\n(2);";
        let parts = Parts { statements, ..Parts::default() };
        passes(&parts, "packet 0 01 02\nexpect 1 02 02 $\n");
        // The page's statement about cpp, if there is one: the number is the macro's argument, and is lost.
        let dir = TempDir::new("differences");
        let text = dir.write("text.p4", "#define h_of(x)\n# see h_of\n(2);\n");
        let cpp = std::process::Command::new("cpp")
            .args(["-undef", "-x", "assembler-with-cpp", "-P", &text])
            .output();
        if let Ok(output) = cpp {
            assert!(!String::from_utf8_lossy(&output.stdout).contains("(2)"));
        }
    }),
    ("**`__DATE__`, `__TIME__` and `__TIMESTAMP__`**", || {
        let statements =
            "#if defined(__DATE__) || defined(__TIME__) || defined(__TIMESTAMP__)\n#error defined\n#endif";
        passes(&Parts { statements, ..Parts::default() }, "packet 0 01 02\nexpect 1 01 02 $\n");
    }),
    ("**Commands between `load_new_config_file` and `swap_configs`**", || {
        tested_in(
            "crates/text/tests/server.rs",
            "fn a_compilation_delays_no_other_client_and_ends_with_its_own(",
        );
    }),
    ("**Digests.**", || {
        tested_in("tests/notices.rs", "fn each_call_of_digest_is_a_message_with_the_values_of_the_call(");
    }),
    ("**The control port.**", || {
        tested_in("crates/text/tests/server.rs", "fn a_thrift_client_gets_an_error_at_once(");
        tested_in("tests/namespaces/rights.rs", "user 54322 may not control this switch");
    }),
    ("**Files and interfaces through that port.**", || {
        tested_in("tests/control.rs", "fn over_tcp_the_switch_opens_only_granted_files(");
    }),
    ("**Ports of copies.**", || {
        tested_in("crates/control/tests/write.rs", "fn limits_hold_for_typed_updates(");
    }),
    ("**Slow links.**", || {
        tested_in("tests/namespaces/slow_link.rs", "fn a_slow_link_fills_queues_without_configuration(");
    }),
    ("**Loops that do not end.**", || {
        let states = "state start { transition select(p.lookahead<bit<8>>()) { 9: start; default: done; } }
            state done { p.extract(h.a); transition accept; }";
        passes(
            &Parts {
                states,
                statements: "if (s.parser_error == error.ParserTimeout) { h.a.setValid(); h.a.x = 0xee; }",
                ..Parts::default()
            },
            "packet 0 01 02\nexpect 1 01 02 $\npacket 0 09 02\nexpect 1 ee 00 09 02 $\n",
        );
        // 65,535 turns are within the bound, 65,543 are not.
        let statements = "for (bit<32> i = 0; i != 65534 + (bit<32>) h.a.x; i = i + 1) { m.m = i; }";
        passes(
            &Parts { statements, ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\npacket 0 09 02\npacket 0 01 03\nexpect 1 01 03 $\n",
        );
    }),
    ("**False assertions.**", || {
        passes(
            &Parts { statements: "assert(h.a.x != 9); assume(h.a.x != 8);", ..Parts::default() },
            "packet 0 09 02\npacket 0 08 02\npacket 0 01 02\nexpect 1 01 02 $\nno_packet\n",
        );
    }),
    ("* struct values in registers,", || {
        let statements = "r.read(m, 0); m.m = m.m + 1; r.write(0, m); h.a.x = (bit<8>) m.m;";
        passes(
            &Parts { declarations: "register<meta_t>(1) r;", statements, ..Parts::default() },
            "packet 0 00 02\nexpect 1 01 02 $\npacket 0 00 02\nexpect 1 02 02 $\n",
        );
        let declarations = "action f(meta_t d) { switch (d.m) { 7: { h.a.x = 0xee; } default: { } } }
            table t { key = { h.a.x: exact; } actions = { f; NoAction; } const entries = { 1: f({ 7 }); 2: f({ 8 }); } }";
        passes(
            &Parts { declarations, statements: "t.apply();", ..Parts::default() },
            "packet 0 01 02\nexpect 1 ee 02 $\npacket 0 02 02\nexpect 1 02 02 $\n",
        );
    }),
    ("* division and `%`", || {
        let statements = "h.a.y = (int<8>) (8w200 % h.a.x); h.a.x = 200 / h.a.x;";
        passes(&Parts { statements, ..Parts::default() }, "packet 0 03 00\nexpect 1 42 02 $\n");
        for (label, hit, miss) in
            [("8w1 .. (bit<8>) h.a.y", "03 03", "05 04"), ("8w1 &&& (bit<8>) h.a.y", "03 01", "02 03")]
        {
            let states = format!(
                "state start {{ p.extract(h.a); transition select(h.a.x) {{ {label}: mark; default: accept; }} }}
                state mark {{ h.a.x = 0xee; transition accept; }}"
            );
            let marked = hit.replacen("03", "ee", 1);
            let script = format!("packet 0 {hit}\nexpect 1 {marked} $\npacket 0 {miss}\nexpect 1 {miss} $\n");
            passes(&Parts { states: &states, ..Parts::default() }, &script);
        }
        let statements =
            "h.us[h.a.x].b.setValid(); h.us[h.a.x].b.v = 5; h.a.y = (int<8>) (bit<8>) h.us[1].b.v;";
        passes(&Parts { statements, ..Parts::default() }, "packet 0 01 02\nexpect 1 01 05 $\n");
    }),
    ("* `varbit` fields after the first one", || {
        passes(
            &Parts { statements: "h.w.setValid();", emits: "p.emit(h.w);", ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\n",
        );
    }),
    ("* keys of match kind `selector` of type `bit<0>`,", || {
        let declarations = "action f() { h.a.x = 0xee; } table t { key = { h.a.x: exact; m.w: selector; } actions = { f; NoAction; }
            implementation = action_selector(HashAlgorithm.crc16, 4, 4); }";
        passes(
            &Parts { meta: "bit<0> w;", declarations, statements: "t.apply();", ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\n",
        );
        tested_in("tests/language/zero_width.p4", "enum bit<0> only_t");
    }),
    ("* a generic struct as a type argument of itself", || {
        let statements = "m.pairs.first.first = 7; h.a.x = m.pairs.first.first;";
        passes(
            &Parts { meta: "pair_t<pair_t<bit<8>>> pairs;", statements, ..Parts::default() },
            "packet 0 01 02\nexpect 1 07 02 $\n",
        );
    }),
    ("* values of type `bit<0>` as table keys,", || {
        let refused = [
            (
                Parts {
                    declarations: "table t { key = { m.w: exact; } actions = { NoAction; } }",
                    statements: "t.apply();",
                    ..Parts::default()
                },
                "a table key of type bit<0>",
            ),
            (
                Parts {
                    declarations: "action d(bit<0> w) { } table t { actions = { d; } default_action = d(0); }",
                    statements: "t.apply();",
                    ..Parts::default()
                },
                "an action parameter of type bit<0>",
            ),
            (
                Parts { statements: "digest<meta_t>(1, m);", ..Parts::default() },
                "a value of type bit<0> among the data of `digest`",
            ),
            (
                Parts { statements: "log_msg(\"{}\", { m.w });", ..Parts::default() },
                "a value of type bit<0> among the data of `log_msg`",
            ),
            (
                Parts {
                    statements: "hash(m.w, HashAlgorithm.crc16, 8w0, { h.a.x }, 16w7);",
                    ..Parts::default()
                },
                "`hash` with a result of type bit<0>",
            ),
            (
                Parts { statements: "random(m.w, m.w, m.w);", ..Parts::default() },
                "`random` with a result of type bit<0>",
            ),
            (
                Parts { statements: "for (bit<0> i in 0 .. 0) { m.w = i; }", ..Parts::default() },
                "a loop over values of type bit<0>",
            ),
            (
                Parts { declarations: "register<meta_t>(1) r;", ..Parts::default() },
                "a register with values of type bit<0>",
            ),
            (
                Parts {
                    states: "value_set<bit<0>>(4) set;
                        state start { transition select(m.w) { set: accept; default: reject; } }",
                    ..Parts::default()
                },
                "a value set of type bit<0>",
            ),
        ];
        for (parts, says) in refused {
            refuses(&Parts { meta: "bit<0> w;", ..parts }, says);
        }
        refuses(&Parts { meta: "varbit<0> w;", ..Parts::default() }, "of type varbit<0>");
        let statements = "m.w = (bit<0>) h.a.x; h.a.x = h.a.x ++ m.w;";
        passes(
            &Parts { meta: "bit<0> w;", statements, ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\n",
        );
        tested_in("crates/p4info/tests/golden.rs", "fn fields_of_type_bit_0_are_refused(");
    }),
    ("* a table and a value set with one full control-plane name,", || {
        tested_in("crates/arch/tests/golden/refused_names.ir", "value_set<bit<8>>(4) set;");
    }),
    ("* varbits in digests,", || {
        let states = "state start { p.extract(h.a); p.extract(h.v, 8); transition accept; }";
        let parts = Parts { states, statements: "digest<v_t>(1, h.v);", ..Parts::default() };
        refuses(&parts, "a varbit among the data of `digest`");
    }),
    ("* `emit` in actions that tables of the deparser run,", || {
        let deparser = "action e() { p.emit(h.a2); } table t { key = { h.a.x: exact; } actions = { e; } }";
        refuses(
            &Parts { deparser, emits: "t.apply();", ..Parts::default() },
            "emit in an action that a table runs",
        );
    }),
    ("* ranges of signed keys", || {
        let table = |range: &str| {
            "action hit() { h.a.x = 0xee; } table t { key = { h.a.y: range; } actions = { hit; NoAction; } \
             const entries = { RANGE: hit(); } }"
                .replace("RANGE", range)
        };
        let statements = "t.apply();";
        let declarations = table("-8s3 .. 8s5");
        refuses(
            &Parts { declarations: &declarations, statements, ..Parts::default() },
            "a range whose low end is above",
        );
        // Compared as bits: -3 is 0xfd, which is between 5 and 0xff.
        let declarations = table("8s5 .. -8s1");
        let script = "packet 0 01 fd\nexpect 1 ee fd $\npacket 0 01 04\nexpect 1 01 04 $\n";
        passes(&Parts { declarations: &declarations, statements, ..Parts::default() }, script);
    }),
    ("* expressions more than 256 deep", || {
        let deep = format!("h.a.x = {}h.a.x{};", "(".repeat(300), " + h.a.x)".repeat(300));
        refuses(&Parts { statements: &deep, ..Parts::default() }, "nests more than 256 deep");
        refuses(&Parts { meta: "bit<2049> w;", ..Parts::default() }, "up to 2048 bits");
        refuses(&Parts { meta: "varbit<32769> w;", ..Parts::default() }, "up to 32768 bits");
        passes(
            &Parts { meta: "bit<2048> w; varbit<32768> v;", ..Parts::default() },
            "packet 0 01 02\nexpect 1 01 02 $\n",
        );
    }),
    ("* a `--drop-port` of `simple_switch`", || {
        let dir = TempDir::new("differences");
        let path = dir.write("program.p4", program(&Parts::default()));
        run(&["simple_switch", &path, "--", "--drop-port", "510"])
            .expect_status(1)
            .says(&["not supported yet: --drop-port other than 511"]);
    }),
    ("* P4_14, and architectures", || {
        let dir = TempDir::new("differences");
        let old =
            dir.write("old.p4", "header_type h { fields { a : 8; } } parser start { return ingress; }\n");
        run(&["check", &old]).expect_status(1).says(&["this is P4_14"]);
        let path = dir.write("program.p4", program(&Parts::default()));
        run(&["check", "--arch", "pna", &path]).expect_status(2).says(&["v1model", "psa"]);
    }),
];

#[test]
fn every_entry_of_the_page_is_true() {
    let page = std::fs::read_to_string(root().join("docs/differences.md")).expect("the page");
    let entries: Vec<&str> = page.lines().filter(|l| l.starts_with("**") || l.starts_with("* ")).collect();
    for line in &entries {
        let tests = ENTRIES.iter().filter(|(begin, _)| line.starts_with(begin)).count();
        assert_eq!(tests, 1, "tests of this entry of docs/differences.md: {line}");
    }
    for (begin, test) in ENTRIES {
        assert!(
            entries.iter().any(|line| line.starts_with(begin)),
            "no entry of docs/differences.md begins with {begin}"
        );
        println!("{begin}");
        test();
    }
}

/// p4c for bmv2 also refuses these, so they are not differences.
#[test]
fn programs_that_p4c_refuses_are_refused() {
    let table =
        "action a() {} table t { key = { h.a.x: exact; } actions = { a; } const entries = { _: a(); } }";
    refuses(
        &Parts { declarations: table, statements: "t.apply();", ..Parts::default() },
        "a don't-care as exact key",
    );
}

/// If `run` refuses a program, `check` refuses it with the same message.
#[test]
fn check_and_run_refuse_the_same() {
    let big = (0..33).map(|i| format!("bit<2048> f{i};")).collect::<String>();
    let emitted = |fields: &str| {
        let text = program(&Parts { emits: "p.emit(h.big);", ..Parts::default() });
        text.replace(
            "struct headers_t {",
            &format!("header big_t {{ {fields} }} struct headers_t {{ big_t[9] big;"),
        )
    };
    let counted: String = (0..200_001).map(|_| "h.a.x=1;").collect();
    let programs = [
        ("headers that no buffer holds", emitted(&big), "emit"),
        (
            "too many statements",
            program(&Parts { statements: &counted, ..Parts::default() }),
            "200000 statements",
        ),
        (
            "a register beyond memory",
            program(&Parts {
                declarations: "register<bit<2048>>(0xffffffff) r;",
                statements: "r.write(0, 1);",
                ..Parts::default()
            }),
            "cells of registers",
        ),
        (
            "entries of one key",
            program(&Parts {
                declarations: "action a() {} table t { key = { h.a.x: exact; } actions = { a; } const entries = { 1: a(); 1: a(); } }",
                statements: "t.apply();",
                ..Parts::default()
            }),
            "two entries with this key",
        ),
        (
            "an extern that only the program declares",
            program(&Parts { statements: "ours(h.a.x);", ..Parts::default() })
                .replace("parser P(", "extern void ours(inout bit<8> v);\nparser P("),
            "",
        ),
    ];
    let dir = TempDir::new("refused");
    for (name, text, says) in programs {
        let path = dir.write("program.p4", text);
        let check = run(&["check", "--Wdisable", &path]);
        for engine in ["jit", "interp"] {
            let ran = run(&["run", "--Wdisable", "--engine", engine, &path, "-i", "0@mem"]);
            // `check` reports that externs which only the program declares cannot run; as P4 they are correct.
            let refused = check.status != 0 || check.stdout.contains("fine as P4, but");
            assert!(refused && ran.status == 1, "{name}, {engine}: {}\n{}", check.stderr, ran.stderr);
            assert!(check.status == 0 || check.stderr.contains(says), "{name}: {}", check.stderr);
            assert!(
                check.status == 0 || check.stderr == ran.stderr,
                "{name}: {}\n{}",
                check.stderr,
                ran.stderr
            );
        }
    }
}
