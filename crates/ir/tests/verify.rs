//! What the verifier refuses.

use p4jet_ir::{text, verify};

const GOOD: &str = r#"
program good
errors NoError, PacketTooShort
error_packet_too_short 1
error_header_too_short 1
drop_reasons "gone"
field h.$valid$: 1 valid h
field h.f: 8 in h
field h.v: 32 in h
field h.v.len: 6 temp
field m.x: 8 metadata
field m.w: 16 metadata
field m.error: 32 metadata
field a.p: 8 data a
header h valid h.$valid$ { h.f, h.v varbit h.v.len }
instance d direct_counter both on t
action a(a.p) { n0: m.x = a.p return }
table t {
  key k: 8 ternary
  action a
  default a(0x1)
  size 2
  entry 1 (0x10&0xf0) a(0xff)
  direct d
}
block p parser error m.error { n0: extract h varbit 0x8:8 return }
block c control { n0: apply t(m.x) next n0 exit n0 }
block e deparser { n0: emit h return }
ingress p, c, e
"#;

/// The good program with `from` replaced by `to` is refused with this message.
#[track_caller]
fn check(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from));
    let program = text::parse(&good().replace(from, to)).unwrap_or_else(|e| panic!("{e}"));
    let errors = verify::verify(&program).expect_err("it is refused");
    assert!(errors.iter().any(|e| e.to_string() == expected), "{errors:#?}");
}

fn good() -> String {
    GOOD.replace("both", "packets_and_bytes")
}

#[test]
fn accepts_the_good() {
    assert_eq!(verify::verify(&text::parse(&good()).unwrap()), Ok(()));
}

#[test]
fn refuses() {
    check("m.x = a.p", "m.w = a.p", "action a, n0, statement 0: `m.w` has width 16, its value 8");
    check("m.x = a.p", "m.x = add(m.w, 0x1:8)", "action a, n0, statement 0: add of widths 16 and 8");
    check("m.x = a.p", "m.x = 0x100:8", "action a, n0, statement 0: 0x100 does not fit width 8");
    check("m.x = a.p", "m.x = m.x[8:1]", "action a, n0, statement 0: slice [8:1] of width 8");
    check("m.x = a.p", "m.x = zext(m.w, 8)", "action a, n0, statement 0: extension from width 16 to 8");
    check("m.x = a.p", "emit h", "action a, n0, statement 0: emit outside a deparser");
    check(
        "m.x = a.p",
        "extract h varbit 0x0:1",
        "action a, n0, statement 0: extract outside a parser with an error field",
    );
    check("m.x = a.p", "m.x, m.x = call f()", "action a, n0, statement 0: two results go to `m.x`");
    check("m.x = a.p", "m.x = #99", "action a, n0, statement 0: field 99 of 8");
    check("m.x = a.p return", "apply t(m.x) next n0 exit n0", "action a, n0, end: an action applies a table");
    check("emit h", "m.x = a.p", "block e, n0, statement 0: `a.p` is action data of another action");
    check("emit h return", "exit", "block e, n0, end: exit outside an action");
    check("emit h return", "reject 0x0:32", "block e, n0, end: reject outside a parser with an error field");
    check("emit h return", "goto n7", "block e, n0, end: node 7 of 1");
    check("emit h return", "drop #3", "block e, n0, end: drop reason 3 of 1");
    check("emit h return", "if m.x then n0 else n0", "block e, n0, end: a condition of width 8");
    check("emit h return", "switch m.x { 0x1: n0, 0x1: n0 } else n0", "block e, n0, end: two cases 0x1");
    check(
        "emit h return",
        "switch m.x { 0x100: n0 } else n0",
        "block e, n0, end: case 0x100 of a value of width 8",
    );
    check("apply t(m.x)", "apply t(m.w)", "block c, n0, end: key `k` has width 8, its expression 16");
    check("apply t(m.x)", "apply t(m.x) hit m.x", "block c, n0, end: the hit field has width 8, expected 1");
    check(
        "extract h varbit 0x8:8",
        "extract h",
        "block p, n0, statement 0: no varbit length for a header with a varbit",
    );
    check(
        "parser error m.error",
        "parser",
        "block p, n0, statement 0: extract outside a parser with an error field",
    );
    check("error m.error", "error m.x", "block p: the error field has width 8, expected 32");
    check("h.v.len: 6", "h.v.len: 5", "header h: a length field of width 5 for a varbit of 32 bits");
    check("field m.x: 8", "field m.x: 0", "field m.x: it has width 0, expected 1 to 65536");
    check(
        "field m.x: 8 metadata",
        "field m.x: 8 metadata field m.w: 8 temp",
        "program: two fields are named `m.w`",
    );
    check(
        "table t {\n",
        "action a2 as a() { n0: return }\ntable t {\n  action a2\n",
        "table t: two listed actions are named `a`",
    );
    check("{ h.f, ", "{ ", "field h.f: its header lists it 0 times, expected once");
    check("default a(0x1)", "default a()", "table t: the default action has 0 values for 1 parameters");
    check(
        "default a(0x1)",
        "default a(0x100)",
        "table t: the default action: 0x100 does not fit `a.p` of width 8",
    );
    check(
        "(0x10&0xf0)",
        "(0x11&0xf0)",
        "table t, entry 0: key `k`: Ternary { value: 17, mask: 240 } is not a match for width 8",
    );
    check("(0x10&0xf0)", "(0x10)", "table t, entry 0: key `k` is ternary, the match is Exact(16)");
    check("size 2", "size 0", "table t: 1 entries, but the size is 0");
    check("  direct d\n", "  direct d\n  direct d\n", "instance d: its table lists it 2 times");
    check("emit h return", "truncate m.x return", "block e, n0, statement 0: truncate outside a control");
    check("emit h return", "done", "block e, n0, end: done outside a control");
    check("m.x = a.p return", "egress", "action a, n0, end: egress outside a control of ingress");
    check(
        "apply t(m.x) next",
        "copy egress current keep set (m.x = m.w) apply t(m.x) next",
        "block c, n0, statement 0: `m.x` has width 8, its value 16",
    );
    check(
        "apply t(m.x) next",
        "copy egress current keep () group m.w port m.x instance m.x apply t(m.x) next",
        "block c, n0, statement 0: a copy sets a field twice",
    );
    check(
        "apply t(m.x) next",
        "apply t(m.x) entry m.w next",
        "block c, n0, end: the entry field has width 16, expected 32",
    );
    check(
        "apply t(m.x) next",
        "apply t(m.x) selector m.w next",
        "block c, n0, end: a selector for table `t`: expected one exactly if it has groups",
    );
    check("  direct d\n", "  profile d\n", "table t: `d` is no action profile");
    check("ingress p, c, e", "ingress p, c, c", "program: block 1 runs twice");
    check("error_packet_too_short 1", "error_packet_too_short 2", "program: error code 2 of 2");
}
