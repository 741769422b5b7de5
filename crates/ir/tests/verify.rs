//! Programs that the verifier refuses.

use p4jet_ir::turns::{PACKET_WORK_MAX, packet_work};
use p4jet_ir::{Program, text, verify};

const GOOD: &str = r#"
program good
errors NoError, PacketTooShort
error_packet_too_short 1
error_header_too_short 1
error_invalid_argument 1
drop_reasons "gone"
field h.$valid$: 1 valid h
field h.f: 8 in h
field h.v: 32 in h
field h.v.len: 6 temp
field m.x: 8 metadata
field m.w: 16 metadata
field m.error: 32 metadata
field a.p: 8 data a
field m.v0: 4 metadata
field m.v1: 4 metadata
field m.v2: 4 metadata
column v { m.v0, m.v1, m.v2 }
column even { m.v0, m.v2 }
column odd { m.v1, m.v0 }
column mixed { m.v0, m.x }
column data { a.p }
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
block c control { n0: apply t(m.x) next n1 exit n1 n1: return }
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
    let with_columns = good().replace("m.x = a.p", "element v at m.x = element(even, m.w)");
    assert_eq!(verify::verify(&text::parse(&with_columns).unwrap()), Ok(()));
}

#[test]
fn refuses() {
    check("m.x = a.p", "m.w = a.p", "action a, n0, statement 0: `m.w` has width 16, its value 8");
    check("m.x = a.p", "m.x = add(m.w, 0x1:8)", "action a, n0, statement 0: add of widths 16 and 8");
    check("m.x = a.p", "m.x = 0x100:8", "action a, n0, statement 0: 0x100 does not fit width 8");
    check("m.x = a.p", "m.x = m.x[8:1]", "action a, n0, statement 0: slice [8:1] of width 8");
    check(
        "m.x = a.p",
        "element v at m.x = m.x",
        "action a, n0, statement 0: a column of width 4, the value has 8",
    );
    check(
        "m.x = a.p",
        "m.x = element(mixed, m.w)",
        "action a, n0, statement 0: a column of fields of different kinds",
    );
    check(
        "m.x = a.p",
        "m.x = element(data, m.w)",
        "action a, n0, statement 0: a column of fields of different kinds",
    );
    check(
        "m.x = a.p",
        "element v at m.x = element(odd, m.x)",
        "program: two columns share `m.v1`, and neither is a part of the other",
    );
    check("m.x = a.p", "m.x = zext(m.w, 8)", "action a, n0, statement 0: extension from width 16 to 8");
    check("m.x = a.p", "emit h", "action a, n0, statement 0: emit outside a deparser");
    check(
        "m.x = a.p",
        "extract h varbit 0x0:1",
        "action a, n0, statement 0: extract outside a parser with an error field",
    );
    let message = "action a, n0, statement 0: number of arguments of `random`: found 1, expected 2";
    check("m.x = a.p", "m.x = call random(a.p)", message);
    let message = "action a, n0, statement 0: number of results of `random`: found 0, expected 1";
    check("m.x = a.p", "call random(a.p, a.p)", message);
    let message =
        "action a, n0, statement 0: number of arguments of `meter.execute`: found 0, expected 1 to 2";
    check("m.x = a.p", "m.x = call meter.execute()", message);
    let message =
        "action a, n0, statement 0: number of arguments of `crc16_more`: found 0, expected at least 1";
    check("m.x = a.p", "m.x = call crc16_more()", message);
    check("m.x = a.p", "m.x, m.x = call foreign.f()", "action a, n0, statement 0: two results go to `m.x`");
    check("m.x = a.p", "m.x = #99", "action a, n0, statement 0: field 99 of 11");
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
    check("  direct d\n", "  profile d\n", "table t: `d` is not an action profile");
    check("ingress p, c, e", "ingress p, c, c", "program: block 1 runs twice");
    check("error_packet_too_short 1", "error_packet_too_short 2", "program: error code 2 of 2");
    check("error_invalid_argument 1", "error_invalid_argument 2", "program: error code 2 of 2");
}

/// Returns the errors about loops of a control with these nodes; `top` has further declarations.
fn looped(top: &str, nodes: &str) -> Vec<String> {
    let program = in_loop(top, nodes);
    verify::verify(&program).err().into_iter().flatten().map(|e| e.to_string()).collect()
}

fn in_loop(top: &str, nodes: &str) -> Program {
    let text = format!(
        "program loops errors NoError, PacketTooShort error_packet_too_short 1 error_header_too_short 1 \
         drop_reasons \"loop ran too long\" field $turns: 32 temp field i: 8 temp field j: 16 temp field k: 32 temp \
         field x: 8 metadata field bits: 8 metadata turns $turns {top} block c control {{ {nodes} }} ingress c"
    );
    text::parse(&text).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(node: u32) -> Vec<String> {
    vec![format!("block c, n{node}: a loop that is neither bounded nor counted by turns")]
}

#[test]
fn every_loop_is_bounded_or_counted() {
    let fine: Vec<String> = Vec::new();
    // Nothing makes progress.
    assert_eq!(looped("", "n0: goto n0"), refused(0));
    assert_eq!(looped("", "n0: turn n0 else n1 n1: drop \"loop ran too long\""), fine);
    // The code after spent turns is a loop itself.
    assert_eq!(looped("", "n0: turn n0 else n0"), refused(0));
    assert_eq!(looped("", "n0: turn n2 else n1 n1: goto n0 n2: return"), refused(0));
    // A path around the turn.
    assert_eq!(looped("", "n0: if eq(x, 0x0:8) then n1 else n0 n1: turn n0 else n2 n2: return"), refused(0));
    // Up to a constant, to an unknown limit, and through the end of the range.
    let up = |guard: &str, step: &str| {
        looped(
            "",
            &format!("n0: i = 0x0:8 goto n1 n1: if {guard} then n2 else n3 n2: {step} goto n1 n3: return"),
        )
    };
    assert_eq!(up("ltu(i, 0x10:8)", "i = add(i, 0x1:8)"), fine);
    assert_eq!(up("leu(i, 0x10:8)", "i = add(i, 0x3:8)"), fine);
    assert_eq!(up("ne(i, 0x10:8)", "i = add(i, 0x1:8)"), fine);
    assert_eq!(up("ltu(i, x)", "i = add(i, 0x1:8) x = 0xff:8"), fine);
    assert_eq!(up("leu(i, 0xff:8)", "i = add(i, 0x1:8)"), refused(1), "it is always less or equal");
    assert_eq!(up("leu(i, x)", "i = add(i, 0x1:8)"), refused(1), "if x is 255");
    assert_eq!(up("ltu(i, 0xff:8)", "i = add(i, 0x2:8)"), refused(1), "254 is followed by 0");
    assert_eq!(up("ne(i, 0x11:8)", "i = add(i, 0x2:8)"), refused(1), "it passes by");
    assert_eq!(up("ltu(i, 0x10:8)", "i = add(i, x)"), refused(1), "x may be 0");
    assert_eq!(up("ltu(i, 0x10:8)", "i = add(i, 0x1:8) i = x"), refused(1));
    assert_eq!(up("ltu(i, 0x10:8)", "i = add(i, 0x1:8) i = sub(i, 0x1:8)"), refused(1));
    assert_eq!(up("ltu(i, 0x10:8)", "x = add(x, 0x1:8)"), refused(1));
    assert_eq!(up("lts(i, 0x10:8)", "i = add(i, 0x1:8)"), fine);
    assert_eq!(up("ltu(0x0:8, i)", "i = sub(i, 0x1:8)"), fine);
    assert_eq!(up("ltu(0x0:8, i)", "i = add(i, 0x1:8)"), refused(1));
    // One path around the loop skips the step.
    assert_eq!(
        looped(
            "",
            "n0: if ltu(i, 0x10:8) then n1 else n3 n1: if eq(x, 0x0:8) then n2 else n0 \
             n2: i = add(i, 0x1:8) goto n0 n3: return"
        ),
        refused(0)
    );
    // A table's action sets the counter.
    let table = "action a() { n0: i = 0x0:8 return } table t { action a default a() size 1 }";
    assert_eq!(
        looped(
            table,
            "n0: i = 0x0:8 goto n1 n1: if ltu(i, 0x10:8) then n2 else n4 n2: i = add(i, 0x1:8) goto n3 \
             n3: apply t() next n1 exit n1 n4: return"
        ),
        refused(1)
    );
}

#[test]
fn nested_loops_multiply() {
    // `outer` turns of i, each with `inner` turns of j.
    let nested = |outer: u32, inner: u32| {
        let copies = "";
        looped(
            copies,
            &format!(
                "n0: i = 0x0:8 goto n1 n1: if ltu(i, {outer:#x}:8) then n2 else n5 n2: j = 0x0:16 goto n3 \
                 n3: if ltu(j, {inner:#x}:16) then n4 else n6 n4: j = add(j, 0x1:16) goto n3 n5: return \
                 n6: i = add(i, 0x1:8) goto n1"
            ),
        )
    };
    assert!(nested(200, 300).is_empty());
    assert_eq!(nested(200, 400), refused(3), "80,000 are too many");
    assert!(looped("", "n0: j = 0x0:16 goto n1 n1: if ltu(j, k[15:0]) then n2 else n3 n2: j = add(j, 0x1:16) goto n1 n3: return").is_empty());
    // A loop whose end depends on the packet may have any number of turns.
    let inside = "n1: i = 0x0:8 goto n2 n2: if ltu(i, 0x4:8) then n3 else n4 n3: i = add(i, 0x1:8) goto n2 \
        n4: turn n0 else n5 n5: return";
    assert_eq!(looped("", &format!("n0: if eq(x, 0x0:8) then n1 else n5 {inside}")), refused(2));
    // The same holds for loops in actions that a loop runs.
    let action = "action a() { n0: i = 0x0:8 goto n1 n1: if ltu(i, 0x4:8) then n2 else n3 \
        n2: i = add(i, 0x1:8) goto n1 n3: return } table t { action a default a() size 1 }";
    assert!(looped(action, "n0: apply t() next n1 exit n1 n1: return").is_empty());
    assert_eq!(
        looped(action, "n0: apply t() next n1 exit n1 n1: turn n0 else n2 n2: return"),
        ["action a, n1: a loop that is neither bounded nor counted by turns"]
    );
}

#[test]
fn a_turn_that_does_more_work_counts_as_several() {
    // 100 products of 2,048 bits, each of more than 1,024 word operations.
    let wide = "field w: 2048 metadata";
    let products = "w = mul(w, w) ".repeat(100);
    let counted = |turn: &str| {
        looped(wide, &format!("n0: {products} {turn} n0 else n1 n1: drop \"loop ran too long\""))
    };
    let weight = 100 * (1 + 32 + 32 + 1024) / 128 + 1;
    let too_light = format!("block c, n0: a turn of this loop must count as {weight} or more");
    assert_eq!(counted("turn"), [too_light.as_str()]);
    assert_eq!(counted(&format!("turn {}", weight - 1)), [too_light.as_str()]);
    assert!(counted(&format!("turn {weight}")).is_empty());
    // The heavier one of two branches counts.
    let branches = |turn: u32| {
        looped(
            wide,
            &format!(
                "n0: if eq(x, 0x0:8) then n1 else n2 n1: {products} goto n3 n2: {products} {products} goto n3 \
                 n3: turn {turn} n0 else n4 n4: return"
            ),
        )
    };
    assert_eq!(branches(2 * weight - 2).len(), 1);
    assert!(branches(2 * weight).is_empty());
    // A bounded loop spends its turns faster, so fewer are allowed.
    let bounded = |turns: u32| {
        looped(
            wide,
            &format!(
                "n0: j = 0x0:16 goto n1 n1: if ltu(j, {turns:#x}:16) then n2 else n3 \
                 n2: {products} j = add(j, 0x1:16) goto n1 n3: return"
            ),
        )
    };
    assert!(bounded(65_536 / weight - 3).is_empty());
    assert_eq!(bounded(65_536 / weight), refused(1));
    // The action of a table in a loop counts too.
    let action =
        format!("{wide} action a() {{ n0: {products} return }} table t {{ action a default a() size 1 }}");
    let applied = |turn: u32| {
        looped(&action, &format!("n0: apply t() next n1 exit n1 n1: turn {turn} n0 else n2 n2: return"))
    };
    assert_eq!(applied(weight - 1).len(), 1);
    assert!(applied(weight + 1).is_empty());
    // A lookup that may compare many entries counts as 1,024 operations.
    for (key, weight) in [("exact", 1), ("lpm", 1), ("ternary", 9), ("range", 9), ("optional", 9)] {
        let table =
            format!("action a() {{ n0: return }} table t {{ key k: 8 {key} action a default a() size 1 }}");
        let applied = |turn: u32| {
            looped(&table, &format!("n0: apply t(x) next n1 exit n1 n1: turn {turn} n0 else n2 n2: return"))
        };
        assert_eq!(applied(weight).len(), 0, "{key}");
        assert_eq!(applied(weight - 1).len(), 1, "{key}");
    }
    assert_eq!(looped("", "n0: turn 0 n0 else n1 n1: return").len(), 1);
    assert_eq!(looped("", "n0: turn 70000 n0 else n1 n1: return").len(), 1);
}

/// A hash counts by its data and the largest payload, a message by its text and the squares of its values' words.
#[test]
fn the_work_of_a_call_grows_with_what_it_reads() {
    let work = |call: &str| {
        let top = "field w: 2048 temp field r: 64 temp";
        packet_work(&in_loop(top, &format!("n0: {call} return"))).units
    };
    let long = "x".repeat(60_000);
    let small = work("r = call crc32(x)");
    assert!(small < 64, "{small}");
    for (call, least) in [
        ("r = call csum16(w)", 32),
        ("r = call crc32(w)", 4 * 32),
        ("r = call crc32_custom(w)", 8 * 32),
        ("r = call csum16_payload(x)", 8192),
        ("r = call crc16_payload(x)", 4 * 8192),
        ("r = call crc16_custom_payload_pieces(0x8:32, x)", 8 * 8192),
        ("call log_msg(w) text \"{}\"", 10 * 32 * 32),
        ("w = call random(0x0:32, w)", 2 * 32 * 32),
        (&format!("call log_msg() text \"{long}\""), 7500),
    ] {
        let units = work(call);
        assert!(
            (least..least + least / 2 + 200).contains(&units),
            "{}: {units}",
            &call[..call.len().min(60)]
        );
    }
}

/// What a packet may cause, for the size of batches.
#[test]
fn heavy_work_in_loops_and_all_work_outside_is_counted() {
    let work = |key: &str, nodes: &str| {
        let table =
            format!("action a() {{ n0: return }} table t {{ key k: 8 {key} action a default a() size 1 }}");
        let work = packet_work(&in_loop(&table, nodes));
        assert!(work.is_bounded);
        work.units
    };
    let once = "n0: apply t(x) next n1 exit n1 n1: return";
    let twice = "n0: apply t(x) next n1 exit n1 n1: apply t(x) next n2 exit n2 n2: return";
    let either = "n0: if eq(x, 0x0:8) then n1 else n2 n1: apply t(x) next n3 exit n3 \
                  n2: apply t(x) next n3 exit n3 n3: return";
    let counted = "n0: apply t(x) next n1 exit n1 n1: turn 9 n0 else n2 n2: return";
    let bounded = "n0: j = 0x0:16 goto n1 n1: if ltu(j, 0x64:16) then n2 else n4 n2: apply t(x) next n3 exit n3 \
                   n3: j = add(j, 0x1:16) goto n1 n4: return";
    let searches = |nodes: &str| work("ternary", nodes) / 1024;
    assert_eq!([searches(once), searches(twice), searches(either)], [1, 2, 1]);
    assert!(work("exact", counted) < 100 && work("exact", bounded) < 100);
    assert!(work("ternary", counted) >= PACKET_WORK_MAX);
    let most = searches(bounded);
    assert!((100..110).contains(&most), "{most}");
    assert!(!packet_work(&in_loop("", "n0: goto n0")).is_bounded);
}

#[test]
fn a_parser_makes_progress_or_counts() {
    let parser = |top: &str, nodes: &str| {
        let top = format!(
            "field h.$valid$: 1 valid h field h.f: 8 in h field v.$valid$: 1 valid v field v.v: 8 in v \
             field v.len: 8 temp header h valid h.$valid$ {{ h.f }} \
             header v valid v.$valid$ {{ v.v varbit v.len }} field error: 32 metadata {top} \
             block p parser error error {{ {nodes} }}"
        );
        looped(&top, "n0: return")
    };
    let refused = ["block p, n0: a loop that is neither bounded nor counted by turns"];
    assert!(parser("", "n0: extract h if eq(h.f, 0x0:8) then n0 else n1 n1: return").is_empty());
    assert!(parser("", "n0: advance 0x8:8 goto n0").is_empty());
    assert_eq!(parser("", "n0: advance bits goto n0"), refused);
    assert_eq!(parser("", "n0: extract v varbit bits goto n0"), refused);
    assert_eq!(parser("", "n0: lookahead k goto n0"), refused);
    // Every byte could cost this much.
    let products = |count: usize| "k = mul(k, k) ".repeat(count);
    assert!(parser("", &format!("n0: {} advance 0x8:8 goto n0", products(50))).is_empty());
    assert_eq!(parser("", &format!("n0: {} advance 0x8:8 goto n0", products(500))), refused);
    // An extract of an element that the stack does not have does nothing.
    assert_eq!(parser("", "n0: if eq(x, 0x0:8) then n1 else n0 n1: extract h goto n0"), refused);
}

#[test]
fn turns_are_only_counted() {
    check("block e", "turns m.x block e", "program: the field of turns taken has width 8, expected 32");
    check("emit h return", "turn n0 else n0", "block e, n0, end: a turn, but no field of turns taken");
    let field = "field taken: 32 temp turns taken instance";
    let set = good().replace("instance", field).replace("m.x = a.p", "taken = 0x0:32");
    let copy = |value: &str| {
        good()
            .replace("instance", field)
            .replace("apply t(m.x) next", &format!("copy egress current keep {value} apply t(m.x) next"))
    };
    let errors = |text: &str| {
        let program = text::parse(text).unwrap_or_else(|e| panic!("{e}"));
        verify::verify(&program).err().into_iter().flatten().map(|e| e.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(errors(&set), ["action a, n0, statement 0: a statement reads or writes the turns taken"]);
    let expected = "block c, n0, statement 0: a copy begins with other turns taken than `turns_of_copy` says";
    assert_eq!(errors(&copy("")), [expected]);
    assert!(errors(&copy("set (taken = 0x0:32)")).iter().any(|e| e == expected));
    assert!(errors(&copy("set (taken = select(ltu(taken, 0xfc00:32), 0xfc00:32, taken))")).is_empty());
}
