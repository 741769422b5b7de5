//! The compiler is bounded: any text gives a result or a refusal in bounded time and memory. Programs that each grow in one
//! respect are compiled with limits on processor time and memory, which do not depend on other processes of the machine. The
//! limits are several times what is needed, and a small part of what a quadratic or exponential step would need.

use crate::common::{self, Output, TempDir, root, run, run_command};
use std::fmt::Write;
use std::process::Command;

/// Processor time for one program, in seconds.
const SECONDS_MAX: u32 = 4;
/// Address space for one program, in KiB.
const MEMORY_MAX: u32 = 3 << 20;

/// The parts of a program, in addition to an Ethernet header and two metadata fields.
#[derive(Default)]
struct Parts {
    top: String,
    headers: String,
    meta: String,
    states: String,
    declarations: String,
    statements: String,
}

impl Parts {
    fn text(&self) -> String {
        let Parts { top, headers, meta, states, declarations, statements } = self;
        let states =
            if states.is_empty() { "state start { p.extract(h.e); transition accept; }" } else { states };
        format!(
            "#include <core.p4>
#include <v1model.p4>
header e_t {{ bit<48> d; bit<48> s; bit<16> t; }}
{top}
struct H {{ e_t e; {headers} }}
struct M {{ bit<32> x; bit<32> y; {meta} }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) {{ {states} }}
control V(inout H h, inout M m) {{ apply {{}} }}
control I(inout H h, inout M m, inout standard_metadata_t sm) {{
{declarations}
apply {{ {statements} }} }}
control E(inout H h, inout M m, inout standard_metadata_t sm) {{ apply {{}} }}
control C(inout H h, inout M m) {{ apply {{}} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"
        )
    }
}

/// Repeats `text` for each number below `n`.
fn times(n: usize, text: impl Fn(usize) -> String) -> String {
    (0..n).fold(String::new(), |mut all, i| {
        _ = writeln!(all, "{}", text(i));
        all
    })
}

/// Compiles without machine code, under the limits.
fn check(name: &str, parts: &Parts) -> Output {
    check_for("interp", name, parts)
}

/// Compiles for an engine, under the limits.
fn check_for(engine: &str, name: &str, parts: &Parts) -> Output {
    let dir = TempDir::new("growth");
    let program = dir.write(&format!("{name}.p4"), parts.text());
    let limits = format!("ulimit -t {SECONDS_MAX}; ulimit -v {MEMORY_MAX}; exec \"$0\" \"$@\"");
    let arguments = ["-c", &limits, env!("CARGO_BIN_EXE_p4jet"), "check", &program, "--engine", engine];
    run_command(Command::new("sh").args(arguments))
}

/// The search for the intended name of a mistyped one is bounded.
#[test]
fn many_mistyped_names_among_many_are_refused_in_time() {
    let states = |n: usize| {
        let of = |i: usize| {
            format!("state some_rather_long_state_{i:05} {{ transition a_rather_long_stat_{i:05}; }}")
        };
        format!("state start {{ transition some_rather_long_state_00000; }} {}", times(n, of))
    };
    let programs = [
        (
            "constants",
            Parts {
                top: times(15_000, |i| format!("const bit<32> some_rather_long_name_{i:05} = {i};")),
                statements: times(5_000, |i| format!("m.x = some_rather_long_nmae_{i:05};")),
                ..Parts::default()
            },
        ),
        (
            "fields",
            Parts {
                meta: times(10_000, |i| format!("bit<8> some_rather_long_field_{i:05};")),
                statements: times(5_000, |i| format!("m.some_rather_long_feild_{i:05} = 1;")),
                ..Parts::default()
            },
        ),
        ("states", Parts { states: states(5_000), ..Parts::default() }),
    ];
    for (name, parts) in programs {
        let output = check(name, &parts).expect_status(1);
        output.says(&["did you mean `some_rather_long_", "200 errors"]);
    }
}

#[test]
fn compile_time_grows_with_the_text() {
    let select = |cases: String| {
        format!(
            "state start {{ p.extract(h.e); transition select(h.e.d) {{ {cases} default: accept; }} }} state s {{ transition accept; }}"
        )
    };
    let programs = [
        (
            "fields",
            Parts {
                top: format!("header f_t {{ {} }}", times(10_000, |i| format!("bit<16> f{i};"))),
                headers: "f_t f;".into(),
                statements: times(10_000, |i| format!("h.f.f{i} = h.f.f{};", 9_999 - i)),
                ..Parts::default()
            },
        ),
        (
            "headers",
            Parts {
                top: times(6_000, |i| format!("header h{i}_t {{ bit<16> a; }}")),
                headers: times(6_000, |i| format!("h{i}_t h{i};")),
                states: "state start { p.extract(h.e); transition s0; }".to_string()
                    + &times(6_000, |i| {
                        let next = if i == 5_999 { "accept".into() } else { format!("s{}", i + 1) };
                        format!(
                            "state s{i} {{ p.extract(h.h{i}); transition select(h.h{i}.a) {{ 0: accept; default: {next}; }} }}"
                        )
                    }),
                ..Parts::default()
            },
        ),
        ("select", Parts { states: select(times(20_000, |i| format!("{i}: s;"))), ..Parts::default() }),
        (
            "ranges",
            Parts {
                states: select(times(20_000, |i| format!("{} .. {}: s;", 10 * i, 10 * i + 5))),
                ..Parts::default()
            },
        ),
        (
            "masks_that_are_covered_in_one_line",
            Parts {
                states: select(times(4_000, |i| format!("{i} &&& 0xffff00ff: s;")).replace('\n', " ")),
                ..Parts::default()
            },
        ),
        (
            "a_switch_over_actions",
            Parts {
                declarations: times(8_000, |i| format!("action a{i}() {{ m.x = {i}; }}"))
                    + "table t { key = { h.e.d: exact; } actions = {"
                    + &times(8_000, |i| format!("a{i};"))
                    + "} }",
                statements: format!(
                    "switch (t.apply().action_run) {{ {} }}",
                    times(8_000, |i| format!("a{i}: {{ m.y = {i}; }}"))
                ),
                ..Parts::default()
            },
        ),
        (
            "enums_and_errors",
            Parts {
                top: format!(
                    "error {{ {} NoMore }} enum Kind {{ {} last }}",
                    times(30_000, |i| format!("e{i},")),
                    times(30_000, |i| format!("v{i},"))
                ),
                statements:
                    "Kind k = Kind.last; if (k == Kind.v1 && sm.parser_error == error.e1) { m.x = 1; }".into(),
                ..Parts::default()
            },
        ),
        (
            "keys_of_a_select",
            Parts {
                meta: times(3_000, |i| format!("bit<8> k{i};")),
                states: format!(
                    "state start {{ p.extract(h.e); transition select({} m.k0) {{ ({} 0): accept; default: reject; }} }}",
                    times(3_000, |i| format!("m.k{i},")),
                    times(3_000, |i| format!("{},", i % 256))
                ),
                ..Parts::default()
            },
        ),
    ];
    for (name, parts) in programs {
        let output = check(name, &parts).expect_status(0);
        // Each warning is short, however long the line is, and not all are shown.
        assert!(output.stderr.len() < 500_000, "{name}: {} bytes of warnings", output.stderr.len());
    }
}

#[test]
fn code_generation_time_grows_with_the_program() {
    let programs = [
        (
            "messages_of_a_feed",
            Parts {
                top: times(1_000, |i| format!("header h{i}_t {{ bit<16> a; bit<16> b; }}")),
                headers: times(1_000, |i| format!("h{i}_t h{i};")),
                states: "state start { p.extract(h.e); transition next; }
                    state next { transition select(p.lookahead<bit<16>>()) {"
                    .to_string()
                    + &times(1_000, |i| format!("{i}: s{i};"))
                    + "default: accept; } }"
                    + &times(1_000, |i| format!("state s{i} {{ p.extract(h.h{i}); transition next; }}")),
                ..Parts::default()
            },
        ),
        (
            "registers",
            Parts {
                declarations: times(2_500, |i| format!("register<bit<32>>(16) r{i};")),
                statements: times(2_500, |i| {
                    format!("if (m.x == {i}) {{ r{i}.read(m.x, 1); r{i}.write(2, m.x); }}")
                }),
                ..Parts::default()
            },
        ),
        (
            "a_stack_of_unions",
            Parts {
                top: "header a_t { bit<16> a; } header b_t { bit<16> b; } header_union U { a_t a; b_t b; }"
                    .into(),
                headers: "U[1000] u;".into(),
                states: "state start { p.extract(h.u.next.a); transition select(h.u.last.a.a) { 1: start; default: accept; } }"
                    .into(),
                ..Parts::default()
            },
        ),
        (
            "an_element_by_its_index",
            Parts {
                headers: "e_t[1000] s;".into(),
                statements: "h.s[m.x].d = h.s[m.y].s;".repeat(100) + "h.e.d = h.s[m.x].d;",
                ..Parts::default()
            },
        ),
        (
            "checksums",
            Parts {
                statements: times(2_000, |i| {
                    format!("hash(m.x, HashAlgorithm.csum16, 32w0, {{ h.e.d, h.e.s, 32w{i} }}, 32w100); h.e.t = m.x[15:0];")
                }),
                ..Parts::default()
            },
        ),
        (
            "tables",
            Parts {
                declarations: "action a(bit<32> v) { m.x = v; }".to_string()
                    + &times(1_000, |i| {
                        format!("table t{i} {{ key = {{ m.x: exact; }} actions = {{ a; NoAction; }} }}")
                    }),
                statements: times(1_000, |i| format!("if (t{i}.apply().hit) {{ m.y = {i}; }}")),
                ..Parts::default()
            },
        ),
        (
            "wide_values",
            Parts {
                meta: "bit<2048> w; bit<2048> v;".into(),
                statements: times(200, |i| {
                    format!(
                        "m.w = m.w * m.v + (m.w >> {i}); m.v[{}:{i}] = m.w[{}:{i}]; if (m.w < m.v) {{ m.w = m.v - m.w; }}",
                        i + 63,
                        i + 63
                    )
                }) + "h.e.d = m.w[47:0];",
                ..Parts::default()
            },
        ),
    ];
    for (name, parts) in programs {
        check_for("jit", name, &parts).expect_status(0);
    }
}

/// Many equal things: no pass compares each with all others, or follows all of them from each.
#[test]
fn compile_time_does_not_grow_with_the_square_of_the_program() {
    let actions = |n: usize| times(n, |i| format!("action a{i}(bit<32> v) {{ m.x = v; }}"));
    let table = |n: usize| {
        let names = times(n, |i| format!("a{i};"));
        format!("table t {{ key = {{ h.e.d: exact; }} actions = {{ {names} }} }}")
    };
    let programs = [
        (
            "branches",
            Parts {
                statements: times(20_000, |i| format!("if (m.x == {i}) {{ m.y = {i}; }}")),
                ..Parts::default()
            },
        ),
        (
            "exits",
            Parts {
                statements: times(20_000, |i| format!("if (m.x == {i}) {{ exit; }}")),
                ..Parts::default()
            },
        ),
        (
            "messages",
            Parts {
                statements: times(15_000, |i| format!("log_msg(\"x = {{}} {i}\", {{ m.x }});")),
                ..Parts::default()
            },
        ),
        (
            "actions_with_data",
            Parts {
                declarations: actions(25_000) + &table(25_000),
                statements: "t.apply();".into(),
                ..Parts::default()
            },
        ),
        (
            "one_table_with_many_keys",
            Parts {
                meta: times(20_000, |i| format!("bit<8> k{i};")),
                declarations: format!(
                    "table t {{ key = {{ {} }} actions = {{ NoAction; }} }}",
                    times(20_000, |i| format!("m.k{i}: ternary;"))
                ),
                statements: "t.apply(); if (m.k1 == 1) { t.apply(); } if (m.k2 == 2) { t.apply(); }".into(),
                ..Parts::default()
            },
        ),
        (
            "clones_with_field_lists",
            Parts {
                meta: times(600, |i| format!("@field_list({}) bit<32> f{i};", i % 256)),
                statements: times(600, |i| {
                    let list = i % 256;
                    format!("if (m.x == {i}) {{ clone_preserving_field_list(CloneType.I2E, 1, {list}); }}")
                }),
                ..Parts::default()
            },
        ),
        (
            "match_kinds",
            Parts {
                top: format!("match_kind {{ {} last }}", times(90_000, |i| format!("k{i},"))),
                ..Parts::default()
            },
        ),
    ];
    for (name, parts) in programs {
        check_for("jit", name, &parts).expect_status(0);
    }
    let instances = Parts {
        top: "control c(inout bit<32> x) { action a(bit<32> v) { x = v; }
            table t { key = { x: exact; } actions = { a; NoAction; } } apply { t.apply(); } }"
            .into(),
        declarations: times(8_000, |i| format!("c() c{i};")),
        statements: times(8_000, |i| format!("c{i}.apply(m.x);")),
        ..Parts::default()
    };
    check("instances_with_tables", &instances).expect_status(0);
    let parts = Parts {
        declarations: actions(16_000) + &table(16_000),
        statements: times(16_000, |i| format!("if (m.x == {i}) {{ t.apply(); }}")),
        ..Parts::default()
    };
    let output = check_for("jit", "actions_at_many_places", &parts).expect_status(1);
    output.says(&["machine code for a program of", "at most 500000", "--engine interp"]);
}

/// `check` prints warnings, `trace` only their number.
#[test]
fn a_trace_counts_warnings() {
    let dir = TempDir::new("counted");
    let parts = Parts { statements: times(3, |i| format!("bit<8> unused{i};")), ..Parts::default() };
    let program = dir.write("counted.p4", parts.text());
    run(&["check", &program]).expect_status(0).says(&["unused0", "unused2"]);
    let output = run(&["trace", &program, "020000000001", "020000000002", "0800"]).expect_status(0);
    assert_eq!(output.stderr, format!("3 warnings; `p4jet check {program}` shows them\n"));
}

/// The complexity of a program with large tables fits into 6 GB of address space.
#[test]
fn complexity_does_not_reserve_the_memory_of_large_tables() {
    let program = common::program("vxlan_gateway");
    let dir = TempDir::new("picture");
    let picture = dir.file("picture.svg");
    let limits = "ulimit -v 6000000; exec \"$0\" \"$@\"";
    let program = program.to_str().expect("UTF-8");
    let p4jet = env!("CARGO_BIN_EXE_p4jet");
    let arguments = ["-c", limits, p4jet, "check", program, "--complexity", "--svg", &picture];
    run_command(Command::new("sh").args(arguments)).expect_status(0);
}

/// A refusal for lack of memory points at no place in the program.
#[test]
fn a_program_is_not_at_fault_if_memory_is_missing() {
    let program = common::program("vxlan_gateway");
    let program = program.to_str().expect("UTF-8");
    let p4jet = env!("CARGO_BIN_EXE_p4jet");
    for kib in [400_000, 1_000_000] {
        let limits = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
        let arguments = ["-c", &limits, p4jet, "run", program, "--no-control", "-i", "1@mem"];
        let output = run_command(Command::new("sh").args(arguments)).expect_status(1);
        assert!(output.stderr.starts_with("error[system]: no "), "{}", output.stderr);
        assert!(!output.stderr.contains("-->"), "{}", output.stderr);
    }
}

/// Returns `n` states, each of which leads to three others, possibly earlier ones.
fn states_back_and_forth(n: usize, state: impl Fn(usize) -> String) -> String {
    let far = |i: usize, way: usize| (31 * i * i + 977 * way * (i + 1) + 13) % n;
    let of = |i: usize| {
        let [a, b, c] = [far(i, 1), (i + 1) % n, far(i, 2)];
        let state = state(i);
        format!("state s{i} {{ {state} {{ 1: s{a}; 2: s{b}; 3: s{c}; default: accept; }} }}")
    };
    "state start { p.extract(h.e); transition s0; }\n".to_string() + &times(n, of)
}

#[test]
fn parsers_with_many_back_edges_compile_in_time() {
    let headers = |n: usize| Parts {
        top: times(n, |i| format!("header h{i}_t {{ bit<16> k; }}")),
        headers: times(n, |i| format!("h{i}_t h{i};")),
        states: states_back_and_forth(n, |i| format!("p.extract(h.h{i}); transition select(h.h{i}.k)")),
        statements: "sm.egress_spec = 1;".into(),
        ..Parts::default()
    };
    let all_to_all = |n: usize| {
        let cases = times(n, |i| format!("{i}: s{i};"));
        let of = |i| {
            format!(
                "state s{i} {{ p.extract(h.a); transition select(h.a.t) {{ {cases} default: accept; }} }}"
            )
        };
        Parts {
            headers: "e_t a;".into(),
            states: "state start { p.extract(h.e); transition s0; }".to_string() + &times(n, of),
            ..Parts::default()
        }
    };
    let written = |i| format!("if (h.h{i}.isValid()) {{ h.h{i}.k = h.h{i}.k + 1; }}");
    let programs = [
        ("headers", headers(5_500)),
        ("written_headers", Parts { statements: times(2_500, written), ..headers(2_500) }),
        (
            "lookahead",
            Parts {
                states: "state start { p.extract(h.e); transition s0; }".to_string()
                    + &times(19_000, |i| {
                        let next = |n: usize| if n < 19_000 { format!("s{n}") } else { "accept".into() };
                        let [a, b, c] = [1, 2, 3].map(|n| next(i + n));
                        format!(
                            "state s{i} {{ transition select(p.lookahead<bit<16>>()) {{ 1: {a}; 2: {b}; default: {c}; }} }}"
                        )
                    }),
                ..Parts::default()
            },
        ),
        ("all_to_all", all_to_all(300)),
    ];
    for (name, parts) in programs {
        check_for("jit", name, &parts).expect_status(0);
    }
}

/// A limit is detected before the time is spent.
#[test]
fn machine_code_that_would_take_long_is_refused() {
    let lookahead = |_| "p.advance(8); transition select(p.lookahead<bit<16>>())".to_string();
    let states = Parts { states: states_back_and_forth(18_000, lookahead), ..Parts::default() };
    let output = check_for("jit", "states", &states).expect_status(1);
    output.says(&[
        "error[too-large]",
        "too many instructions and entries of jump tables: the limit is 400000;",
        "--engine interp",
    ]);
    check("states", &states).expect_status(0);
    let own = |i| format!("p.extract(h.h{i}); transition select(h.h{i}.k)");
    let headers = Parts {
        top: "header b_t { bit<8> k; }".into(),
        headers: times(14_000, |i| format!("b_t h{i};")),
        states: states_back_and_forth(14_000, own),
        ..Parts::default()
    };
    let output = check_for("jit", "headers", &headers).expect_status(1);
    output.says(&[
        "error[too-large]",
        "too many instructions and entries of jump tables: the limit is 400000;",
        "--engine interp",
    ]);
}

/// A table with many actions at many places: all of them would be compiled at each.
#[test]
fn machine_code_that_multiplies_is_refused() {
    let parts = Parts {
        declarations: times(1_000, |i| format!("action a{i}(bit<32> v) {{ m.x = v; }}"))
            + "table t { key = { h.e.d: exact; } actions = {"
            + &times(1_000, |i| format!("a{i};"))
            + "} }",
        statements: times(1_000, |i| format!("if (m.x == {i}) {{ t.apply(); }}")),
        ..Parts::default()
    };
    let output = check_for("jit", "actions_at_places", &parts).expect_status(1);
    output.says(&["machine code for a program of", "at most 500000", "--engine interp"]);
}

#[test]
fn declarations_that_share_a_name_are_limited() {
    let overloads = |n: usize| Parts {
        top: times(n, |i| format!("bit<32> f(in bit<32> x{i}) {{ return x{i}; }}")),
        statements: times(n, |i| format!("m.x = f(x{i} = m.x);")),
        ..Parts::default()
    };
    check("as_many_as_may_be", &overloads(256)).expect_status(0);
    let output = check("too_many", &overloads(4_000)).expect_status(1);
    output.says(&["error[limit-exceeded]: more than 256 declarations of `f`", "too_many.p4:"]);
    let methods = Parts {
        top: format!("extern Ex {{ Ex(); {} }}", times(4_000, |i| format!("void m{i}(in bit<32> x);"))),
        declarations: "Ex() e;".into(),
        statements: times(4_000, |i| format!("e.m{i}(m.x);")),
        ..Parts::default()
    };
    let output = check("methods", &methods).expect_status(1);
    output.says(&["error[limit-exceeded]: extern `Ex` has more than 1024 methods"]);
}

/// Each level contains the one below twice: no machine can hold the result of forty levels.
#[test]
fn programs_that_double_are_refused_at_once() {
    let levels = |first: &str, next: &dyn Fn(usize) -> String| first.to_string() + &times(40, next);
    let top =
        |top: String, statements: &str| Parts { top, statements: statements.into(), ..Parts::default() };
    let in_meta = |top: String, meta: &str| Parts { top, meta: meta.into(), ..Parts::default() };
    let values = "262144";
    let programs = [
        (
            "functions",
            "200000 statements",
            top(
                levels("bit<32> f0(in bit<32> x) { return x + 1; }", &|i| {
                    format!("bit<32> f{}(in bit<32> x) {{ return f{i}(x) + f{i}(x + 1); }}", i + 1)
                }),
                "m.x = f40(m.x);",
            ),
        ),
        (
            "generic_functions",
            "200000 statements",
            top(
                levels("struct Pair<T> { T a; T b; } bit<32> f0<T>(in T x) { return 1; }", &|i| {
                    format!(
                        "bit<32> f{}<T>(in T x) {{ Pair<T> q; q.a = x; q.b = x; return f{i}<Pair<T>>(q); }}",
                        i + 1
                    )
                }),
                "m.x = f40<bit<32>>(m.x);",
            ),
        ),
        (
            "parsers",
            "200000 statements",
            Parts {
                top: levels(
                    "parser p0(packet_in p, out e_t e) { state start { p.extract(e); transition accept; } }",
                    &|i| {
                        format!(
                            "parser p{}(packet_in p, out e_t e) {{ p{i}() a; state start {{ a.apply(p, e); transition t; }} state t {{ a.apply(p, e); transition accept; }} }}",
                            i + 1
                        )
                    },
                ),
                states: "p40() q; state start { q.apply(p, h.e); transition accept; }".into(),
                ..Parts::default()
            },
        ),
        (
            "instances",
            "200000 statements",
            Parts {
                top: levels("control c0(inout bit<48> x) { apply { x = x + 1; } }", &|i| {
                    format!("control c{}(inout bit<48> x) {{ c{i}() a; c{i}() b; apply {{}} }}", i + 1)
                }),
                declarations: "c40() c;".into(),
                ..Parts::default()
            },
        ),
        (
            "structs",
            values,
            in_meta(
                levels("struct S0 { bit<8> a; }", &|i| format!("struct S{} {{ S{i} a; S{i} b; }}", i + 1)),
                "S40 s;",
            ),
        ),
        (
            "tuples",
            "4096 types",
            in_meta(
                levels("typedef tuple<bit<8>> T0;", &|i| format!("typedef tuple<T{i}, T{i}> T{};", i + 1)),
                "T40 t;",
            ),
        ),
        (
            "type_arguments",
            values,
            in_meta(
                levels("struct Pair<T> { T a; T b; } typedef bit<8> T0;", &|i| {
                    format!("typedef Pair<T{i}> T{};", i + 1)
                }),
                "T40 t;",
            ),
        ),
        (
            "constants",
            "65536 bits",
            top(
                levels("const int c0 = 3;", &|i| format!("const int c{} = c{i} * c{i};", i + 1)),
                "m.x = (bit<32>) c40;",
            ),
        ),
        ("shifts", "65536 bits", top(String::new(), "m.x = (bit<32>) (1 << 4000000000);")),
        (
            "lists",
            "65536 values",
            top(
                levels("typedef list<bit<8>> T0; const T0 c0 = (T0) { 1 };", &|i| {
                    format!(
                        "typedef list<T{i}> T{}; const T{} c{} = (T{}) {{ c{i}, c{i} }};",
                        i + 1,
                        i + 1,
                        i + 1,
                        i + 1
                    )
                }),
                "",
            ),
        ),
        (
            "strings",
            "65536 bytes",
            top(
                levels("const string c0 = \"ab\";", &|i| format!("const string c{} = c{i} ++ c{i};", i + 1)),
                "log_msg(c40);",
            ),
        ),
        (
            "constants_in_constants",
            "4194304 are allowed",
            top(
                "struct S { bit<8>[4096] a; bit<8>[4096] b; bit<8>[4096] c; bit<8>[4096] d; }
struct L { S a; S b; } const L c = ...;"
                    .to_string()
                    + &times(1_000, |i| format!("const L c{i} = c;")),
                "",
            ),
        ),
        (
            "texts_in_texts",
            "4194304 are allowed",
            top(
                format!("const string c = \"{}\";", "a".repeat(60_000))
                    + &times(20_000, |i| format!("const string c{i} = c ++ \"{i}\";")),
                "",
            ),
        ),
        (
            "texts_in_actions",
            "16777216 operators",
            Parts {
                declarations: format!("action a() {{ log_msg(\"{}\"); }}", "a".repeat(60_000)),
                statements: "a();".repeat(20_000),
                ..Parts::default()
            },
        ),
        (
            "macros",
            "1000000 tokens",
            top(levels("#define M0 1\n", &|i| format!("#define M{} (M{i} + M{i})", i + 1)), "m.x = M40;"),
        ),
    ];
    for (name, limit, parts) in programs {
        let output = check_for("jit", name, &parts).expect_status(1);
        let output = output.says(&[limit, &format!("{name}.p4:")]);
        assert!(!output.stderr.contains("error[internal]"), "{}", output.stderr);
    }
}

#[test]
fn programs_that_multiply_are_refused_with_limit_and_place() {
    let double = |first: &str, call: &str| {
        format!("action a0() {{ {first} }}")
            + &times(40, |i| {
                format!("action a{}() {{ {} }}", i + 1, call.replace("NEXT", &format!("a{i}();")))
            })
    };
    let actions = |call| Parts {
        declarations: double("h.e.d = h.e.d + 1;", call),
        statements: "a40();".into(),
        ..Parts::default()
    };
    let nested = |n: usize, elements: &str| {
        times(n, |i| format!("for (bit<32> v{i} in {elements}) {{")) + "m.x = m.x + 1;" + &"}".repeat(n)
    };
    let controls = |inside: &str| {
        "control c0(inout bit<48> x) { apply { x = x + 1; } }\n".to_string()
            + &times(40, |i| {
                format!(
                    "control c{}(inout bit<48> x) {{ {} }}",
                    i + 1,
                    inside.replace("INNER", &format!("c{i}"))
                )
            })
    };
    let eight = "(list<bit<32>>) { 1, 2, 3, 4, 5, 6, 7, 8 }";
    let programs = [
        ("actions", actions("NEXT NEXT")),
        ("actions_in_branches", actions("if (h.e.t == 1) { NEXT } else { NEXT }")),
        ("loops_over_lists", Parts { statements: nested(12, eight), ..Parts::default() }),
        (
            "copies_of_large_stacks",
            Parts {
                headers: "e_t[4096] a; e_t[4096] b;".into(),
                statements: "h.a = h.b;".repeat(1_000),
                ..Parts::default()
            },
        ),
        (
            "controls",
            Parts {
                top: controls("INNER() a; INNER() b; apply { a.apply(x); b.apply(x); }"),
                declarations: "c40() c;".into(),
                statements: "c.apply(h.e.d);".into(),
                ..Parts::default()
            },
        ),
    ];
    for (name, parts) in programs {
        let output = check(name, &parts).expect_status(1);
        let output = output.says(&["error[too-large]", "200000 statements", &format!("{name}.p4:")]);
        assert!(!output.stderr.contains("error[internal]"), "{}", output.stderr);
    }
}

/// A message with two places in one long line shows the text around each.
#[test]
fn long_lines_with_two_labels_are_cut() {
    let dir = TempDir::new("longline");
    let blank = " ".repeat(700);
    let program = dir.write("long.p4", format!("const bit<8> a = 1;{blank}const bit<8> a = 2;\n"));
    let output =
        run(&["check", &program]).expect_status(1).says(&["error[duplicate-declaration]", "long.p4:1:733"]);
    assert_eq!(output.stderr.matches("const bit<8> a").count(), 2, "{}", output.stderr);
    let longest = output.stderr.lines().map(|line| line.chars().count()).max();
    assert!(longest < Some(250), "{}", output.stderr);
}

/// Headers with 65,538 bytes in total, any of which may be emitted: no buffer has room for them.
#[test]
fn check_refuses_what_run_refuses() {
    let dir = TempDir::new("refused");
    let parts = Parts {
        top: format!("header big_t {{ {} }}", times(8, |i| format!("bit<2048> f{i};"))),
        headers: "big_t[32] s;".into(),
        statements: "h.s[0].setValid(); sm.egress_spec = 1;".into(),
        ..Parts::default()
    };
    let program = dir.write("big.p4", parts.text());
    for words in [&["check", &program] as &[&str], &["run", &program, "-i", "0@mem"]] {
        run(words).expect_status(1).says(&[
            "error[too-large]: the deparser may emit",
            "header bytes; the limit is 65536",
            " | ",
            "big.p4:",
            "^",
        ]);
    }
    // The code and the place have separate fields.
    let output = run(&["check", &program, "--diagnostics", "json"]).expect_status(1);
    let mut objects = output.stderr.lines().map(|line| serde_json::from_str(line).expect(line));
    let error = objects.rfind(|object: &serde_json::Value| object["severity"] == "error").unwrap();
    assert_eq!(error["code"], "too-large", "{error}");
    assert!(error["line"].is_u64() && error["column"].is_u64(), "{error}");
    assert_eq!(error["message"], "the deparser may emit 65550 header bytes; the limit is 65536");
}

/// Machine code whose excessive size is found only after seconds of compilation, when packets already flow. The refusal ends
/// the switch, like an early one.
#[test]
fn a_late_refusal_ends_the_switch() {
    let dir = TempDir::new("late");
    let wide = |i| {
        let byte = i % 256;
        format!("m.w = m.w + (m.v ^ m.w); m.v = m.v - m.w; if (m.w[7:0] == {byte}) {{ m.x = {i}; }}")
    };
    let parts = Parts {
        meta: "bit<2048> w; bit<2048> v;".into(),
        statements: times(12_000, wide) + "sm.egress_spec = m.w[8:0]; h.e.d = m.v[47:0];",
        ..Parts::default()
    };
    let program = dir.write("late.p4", parts.text());
    let output = run(&["run", &program, "-i", "0@mem", "--stay"]).expect_status(1);
    output
        .says(&["too many instructions and entries of jump tables: the limit is 400000;", "--engine interp"]);
}

/// Parts that an error left unfinished, here a variable whose initial value is refused, are not reported as a bug of p4jet.
#[test]
fn an_error_is_not_followed_by_an_internal_one() {
    let language = root().join("tests/language");
    let text = std::fs::read_to_string(language.join("psa_tables.p4")).expect("the program is there");
    let broken = text.replace("psa_direct_meter = rates", "rates = rates");
    assert_ne!(text, broken);
    let dir = TempDir::new("unfinished");
    let program = dir.write("unfinished.p4", broken);
    let output = run(&["check", "-I", language.to_str().expect("UTF-8"), &program]).expect_status(1);
    let output = output.says(&["error[place]", "`execute` of an object", "1 error"]);
    assert!(!output.stderr.contains("error[internal]"), "{}", output.stderr);
}

/// The Internet checksum is counted as a checksum in any form of the call; other hashes are calls of externs.
#[test]
fn internet_checksums_are_counted_apart_from_hashes() {
    let dir = TempDir::new("checksums");
    let hash = |name: &str| format!("hash(m.x, HashAlgorithm.{name}, 32w0, {{ m.x, m.y }}, 32w100);");
    let parts = Parts { statements: hash("csum16") + &hash("crc16") + &hash("csum16"), ..Parts::default() };
    let program = dir.write("checksums.p4", parts.text());
    let done = run(&["check", &program, "--complexity", "--json"]).expect_status(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let counts = &report["program"];
    assert_eq!(counts["checksums"], 2, "{counts}");
    let externs = counts["externs"].as_object().expect("calls by name");
    assert_eq!(
        *externs,
        serde_json::json!({ "hash(crc16)": 1 }).as_object().cloned().expect("an object"),
        "{counts}"
    );
}

/// Structs in structs, type arguments in type arguments, calls in calls: no recursion over types goes deeper than the limit.
#[test]
fn types_do_not_nest_without_bound() {
    const LEVELS: usize = 20_000;
    let chain = |first: &str, next: &dyn Fn(usize, usize) -> String| {
        first.to_string() + &times(LEVELS, |i| next(i, i + 1))
    };
    let variable = |ty: &str| format!("{ty} v;");
    let last = format!("s{LEVELS}");
    let programs = [
        ("structs", chain("struct s0 { bit<8> a; }", &|i, j| format!("struct s{j} {{ s{i} a; }}")), &*last),
        (
            "structs_and_constants",
            chain("struct s0 { bit<8> a; } const s0 c0 = { 1 };", &|i, j| {
                format!("struct s{j} {{ s{i} a; }} const s{j} c{j} = {{ c{i} }};")
            }),
            &last,
        ),
        ("tuples", chain("typedef tuple<bit<8>> s0;", &|i, j| format!("typedef tuple<s{i}> s{j};")), &last),
        ("new_types", chain("type bit<8> s0;", &|i, j| format!("type s{i} s{j};")), &last),
        (
            "generic_structs",
            chain("struct s0<T> { T a; }", &|i, j| format!("struct s{j}<T> {{ s{i}<T> a; }}")),
            "bit<8>",
        ),
        (
            "generic_structs_of_generic_structs",
            chain("struct s0<T> { T a; }", &|i, j| format!("struct s{j}<T> {{ s{i}<s0<T>> a; }}")),
            "bit<8>",
        ),
        (
            "type_arguments",
            chain("struct g<T> { T a; } typedef g<bit<8>> s0;", &|i, j| format!("typedef g<s{i}> s{j};")),
            &last,
        ),
        (
            "structs_in_a_header",
            chain("struct s0 { bit<8> a; }", &|i, j| format!("struct s{j} {{ s{i} a; }}"))
                + &format!("header deep_t {{ {last} a; }}"),
            "deep_t",
        ),
    ];
    for (name, top, ty) in programs {
        let output = check(name, &Parts { top, declarations: variable(ty), ..Parts::default() });
        output.expect_status(1).says(&["error[limit-exceeded]", "64 types inside each other"]);
    }
    // Also for types that are not written out.
    let calls = |n: usize| format!("m.x = {}m.x{}[0];", "f(".repeat(n), ")".repeat(n));
    let inferred = [
        ("calls_that_double", "tuple<T, T> f<T>(in T x) { return { x, x }; }", 40),
        ("calls_that_wrap", "tuple<T> f<T>(in T x) { return { x }; }", 200),
    ];
    for (name, top, n) in inferred {
        let parts = Parts { top: top.into(), statements: calls(n), ..Parts::default() };
        check(name, &parts).expect_status(1).says(&["error[limit-exceeded]", "`f` returns a type"]);
    }
    for (name, arguments, value) in
        [("functions_that_wrap", "T", "{ x }"), ("functions_that_double", "T, T", "{ x, x }")]
    {
        let top = "T f0<T>(in T x) { return x; }".to_string()
            + &times(90, |i| {
                let j = i + 1;
                format!(
                    "T f{j}<T>(in T x) {{ tuple<{arguments}> t = {value}; tuple<{arguments}> u = f{i}(t); return u[0]; }}"
                )
            });
        let parts = Parts { top, statements: "m.x = f90(m.x);".into(), ..Parts::default() };
        check(name, &parts)
            .expect_status(1)
            .says(&["error[too-large]", "type parameter `T` stands for a type"]);
    }
}

/// Types nested to the limits run on the threads of the switch.
#[test]
fn types_nest_as_deep_as_the_limit() {
    // The program's own struct is one level more.
    let top = "struct s0 { bit<32> a; }".to_string()
        + &times(62, |i| format!("struct s{} {{ s{i} a; }}", i + 1))
        + "s62 same(in s62 x) { return x; }";
    let path = ".a".repeat(63);
    let statements =
        format!("m.deep{path} = m.x; m.deep = same(m.deep); m.y = m.deep{path}; sm.egress_spec = 1;");
    let parts = Parts { top, meta: "s62 deep;".into(), statements, ..Parts::default() };
    check_for("jit", "deepest", &parts).expect_status(0);
}

/// Declarations that call or instantiate each other, 20,000 levels deep: refused where the program uses the last one.
#[test]
fn declarations_do_not_nest_without_bound() {
    const LEVELS: usize = 20_000;
    let chain = |first: &str, next: &dyn Fn(usize, usize) -> String| {
        first.to_string() + &times(LEVELS, |i| next(i, i + 1))
    };
    let control = "control c0(inout bit<32> x) { apply { x = x + 1; } }";
    let used = [
        (
            "functions",
            Parts {
                top: chain("bit<32> f0(in bit<32> x) { return x; }", &|i, j| {
                    format!("bit<32> f{j}(in bit<32> x) {{ return f{i}(x); }}")
                }),
                statements: format!("m.x = f{LEVELS}(m.x);"),
                ..Parts::default()
            },
        ),
        (
            "actions",
            Parts {
                declarations: chain("action a0() { m.x = 1; }", &|i, j| {
                    format!("action a{j}() {{ a{i}(); }}")
                }),
                statements: format!("a{LEVELS}();"),
                ..Parts::default()
            },
        ),
        (
            "controls",
            Parts {
                top: chain(control, &|i, j| {
                    format!("control c{j}(inout bit<32> x) {{ c{i}() c; apply {{ c.apply(x); }} }}")
                }),
                declarations: format!("c{LEVELS}() c;"),
                statements: "c.apply(m.x);".into(),
                ..Parts::default()
            },
        ),
        (
            "controls_applied_directly",
            Parts {
                top: chain(control, &|i, j| {
                    format!("control c{j}(inout bit<32> x) {{ apply {{ c{i}.apply(x); }} }}")
                }),
                statements: format!("c{LEVELS}.apply(m.x);"),
                ..Parts::default()
            },
        ),
        (
            "parsers",
            Parts {
                top: chain(
                    "parser p0(packet_in p) { state start { p.advance(8); transition accept; } }",
                    &|i, j| {
                        format!(
                            "parser p{j}(packet_in p) {{ p{i}() q; state start {{ q.apply(p); transition accept; }} }}"
                        )
                    },
                ),
                states: format!("p{LEVELS}() q; state start {{ q.apply(p); transition accept; }}"),
                ..Parts::default()
            },
        ),
    ];
    for (name, parts) in used {
        check(name, &parts).expect_status(1).says(&["error[too-large]", "calls nested more than 100 deep"]);
    }
    let packages =
        chain("package p0(bit<8> a); p0(1) i0;", &|i, j| format!("package p{j}(p{i} a); p{j}(i{i}) i{j};"));
    check("packages", &Parts { top: packages, ..Parts::default() }).expect_status(0);
}
