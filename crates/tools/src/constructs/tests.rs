//! Small programs with known counts.

use super::{Constructs, Path, constructs};
use crate::derive::Options;

/// Ingress after its parser has extracted `a`, `a2`, two elements of the stack `s`, and the member `a` of the union `u`; the
/// header `none` is never extracted.
fn program(declarations: &str, apply: &str, egress: &str, checksum: &str) -> String {
    format!(
        "#include <core.p4>
        #include <v1model.p4>
        header a_t {{ bit<8> x; bit<8> y; bit<16> z; }}
        header v_t {{ bit<8> n; varbit<64> v; }}
        header_union u_t {{ a_t a; v_t b; }}
        struct headers {{ a_t a; a_t a2; a_t[4] s; u_t u; a_t none; }}
        struct meta {{ bit<32> m; a_t a; }}
        parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {{
            state start {{
                p.extract(h.a); p.extract(h.a2); p.extract(h.s.next); p.extract(h.s.next); p.extract(h.u.a);
                transition accept;
            }}
        }}
        control V(inout headers h, inout meta m) {{ apply {{}} }}
        control I(inout headers h, inout meta m, inout standard_metadata_t s) {{
            {declarations}
            apply {{ s.egress_spec = 1; {apply} }}
        }}
        control E(inout headers h, inout meta m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
        control C(inout headers h, inout meta m) {{ apply {{ {checksum} }} }}
        control D(packet_out p, in headers h) {{ apply {{ p.emit(h); }} }}
        V1Switch(P(), V(), I(), E(), C(), D()) main;"
    )
}

fn of(text: &str) -> Constructs {
    let compiled = p4jet_compile::compile("test.p4", text);
    let compiled = compiled.unwrap_or_else(|refused| panic!("{}\n{text}", refused.text()));
    constructs(&compiled.lowered, &compiled.program, &Options::default()).expect("a switch runs it")
}

/// Returns the only path of a program.
#[track_caller]
fn only(text: &str) -> Path {
    let mut found = of(text);
    assert!(!found.more && found.paths.len() == 1, "{}", found.markdown("test"));
    found.paths.remove(0)
}

#[test]
fn statements_count_by_what_they_do_to_headers() {
    let act = "action act(inout a_t t, bit<8> x) { t.x = t.x + x; t.y = t.y + x; }";
    let end = "action end(inout a_t t) { t.setInvalid(); }";
    // Declarations, statements; modified, copied, removed, added; fields written.
    let rows: &[(&str, &str, [u32; 4], u32)] = &[
        ("", "", [0, 0, 0, 0], 0),
        // A header counts once.
        ("", "h.a.x = 1; h.a.y = 2;", [1, 0, 0, 0], 2),
        ("", "h.a.x = 1; h.a2.y = 2;", [2, 0, 0, 0], 2),
        ("", "h.a.x[3:0] = 1;", [1, 0, 0, 0], 1),
        ("", "h.a.x = h.a2.x; h.a.y = h.a2.y; h.a.z = h.a2.z;", [1, 0, 0, 0], 3),
        ("", "for (bit<8> i = 0; i < 3; i = i + 1) { h.a.x = h.a.x + i; }", [1, 0, 0, 0], 3),
        // What no packet header shows does not count.
        ("", "m.m = 1; m.a.setValid(); m.a.x = h.a.x;", [0, 0, 0, 0], 0),
        ("", "m.a = h.a; m.m = (bit<32>) m.a.z; h.a2.z = (bit<16>) m.m;", [1, 0, 0, 0], 1),
        ("", "h.none.x = 1;", [0, 0, 0, 0], 0),
        // Copies.
        ("", "h.a = h.a2;", [0, 1, 0, 0], 0),
        ("", "h.a = h.a2; h.a.x = 1;", [0, 1, 0, 0], 1),
        ("", "h.none = h.a;", [0, 1, 0, 0], 0),
        ("", "h.none = h.a; h.a.setInvalid();", [0, 1, 1, 0], 0),
        ("", "h.a = h.none;", [0, 0, 1, 0], 0),
        ("", "a_t t = h.a; h.a = h.a2; h.a2 = t;", [0, 2, 0, 0], 0),
        ("", "a_t t = h.a; t.x = 1; h.a2 = t;", [0, 1, 0, 0], 0),
        ("", "for (bit<8> i = 0; i < 3; i = i + 1) { h.a = h.a2; }", [0, 3, 0, 0], 0),
        ("", "h.s[1] = h.a;", [0, 1, 0, 0], 0),
        ("", "h.s[h.a.x & 1] = h.a2;", [0, 1, 0, 0], 0),
        // Lists.
        ("", "h.a = { 1, 2, 3 };", [1, 0, 0, 0], 3),
        ("", "h.none = { 1, 2, 3 };", [0, 0, 0, 1], 3),
        // Validity.
        ("", "h.a.setInvalid();", [0, 0, 1, 0], 0),
        ("", "h.none.setInvalid();", [0, 0, 0, 0], 0),
        ("", "h.a.setValid();", [0, 0, 0, 0], 0),
        ("", "h.none.setValid(); h.none.x = 1;", [0, 0, 0, 1], 1),
        ("", "h.a.x = h.a.x + 1; h.a.setInvalid();", [1, 0, 1, 0], 1),
        // Stacks and unions. An element that moves is copied.
        ("", "h.s[h.a.x & 1].y = 9;", [1, 0, 0, 0], 1),
        ("", "h.s.push_front(1);", [0, 2, 0, 0], 0),
        ("", "h.s.push_front(1); h.s[0].setValid(); h.s[0].x = 7;", [0, 2, 0, 1], 1),
        ("", "h.s.pop_front(1);", [0, 1, 1, 0], 0),
        ("", "h.s.pop_front(2);", [0, 0, 2, 0], 0),
        ("", "h.u.b.setValid(); h.u.b.n = 1;", [0, 0, 1, 1], 1),
        // Arguments are copied in and out, which is no copy of a header.
        (act, "act(h.a, 3);", [1, 0, 0, 0], 2),
        (act, "act(h.a, 3); act(h.a2, 3);", [2, 0, 0, 0], 4),
        (end, "end(h.a);", [0, 0, 1, 0], 0),
    ];
    let mut wrong = String::new();
    for (declarations, apply, expected, fields_written) in rows {
        let path = only(&program(declarations, apply, "", ""));
        let c = &path.counts;
        let found = [c.modified, c.copied, c.removed, c.added];
        if (found, c.fields_written) != (*expected, *fields_written) {
            wrong += &format!("{apply}: {found:?}, {} fields\n", c.fields_written);
        }
        assert_eq!((c.parsed, c.tables(), path.x()[0], path.x()[5]), (5, 0, 4, 0), "{apply}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn bytes_are_those_of_the_packet() {
    let path = only(&program("", "h.a2.setInvalid(); h.none = h.a;", "", ""));
    let c = &path.counts;
    assert_eq!((c.parsed_bytes, c.emitted, c.emitted_bytes, c.copied_bytes), (20, 5, 20, 4));
    // `a` moves to the place of `a2`, the rest towards the start by the size of `none`.
    assert_eq!((c.moved, c.moved_bytes), (3, 12));
    let path = only(&program("", "h.s[1].setInvalid();", "", ""));
    assert_eq!((path.counts.moved, path.counts.emitted_bytes), (3, 16));
}

#[test]
fn checksums_write_without_modifying() {
    let checksum = "update_checksum(h.a.isValid(), { h.a.x, h.a.y, h.a2.z }, h.a.z, HashAlgorithm.csum16);";
    let path = only(&program("", "", "", checksum));
    let c = &path.counts;
    assert_eq!((c.modified, c.fields_written, c.checksums, c.checksum_bytes), (0, 0, 1, 4));
    // A hash is an extern, and writes as any statement does.
    let hash = "hash(h.a.z, HashAlgorithm.crc32, 16w0, { h.a.x, h.a2.z }, 16w9);";
    let c = only(&program("", hash, "", "")).counts;
    assert_eq!((c.modified, c.checksums, c.externs.len()), (1, 0, 1));
    assert_eq!((c.externs[0].function.as_str(), c.externs[0].calls, c.externs[0].bytes), ("crc32", 1, 3));
    // Of headers that may be absent, of which the data come in pieces.
    let pieces = "hash(h.a.z, HashAlgorithm.crc32, 16w0, { h.a, h.none }, 16w9);";
    let c = only(&program("", pieces, "", "")).counts;
    assert_eq!((c.externs[0].function.as_str(), c.externs[0].calls, c.externs[0].bytes), ("crc32", 1, 4));
    let register = "register<bit<48>>(4) r;";
    let twice =
        "r.write(0, 1); r.write(1, 2); bit<48> v; r.read(v, 1); m.m = (bit<32>) v; h.a.z = (bit<16>) m.m;";
    let c = only(&program(register, twice, "", "")).counts;
    let calls: Vec<_> =
        c.externs.iter().map(|calls| (calls.function.as_str(), calls.calls, calls.bytes)).collect();
    assert_eq!(calls, [("register.write", 2, 12), ("register.read", 1, 6)]);
    assert_eq!(c.externs[0].instance.as_deref(), Some("I.r"));
}

#[test]
fn lookups_have_their_keys() {
    let table = "action to(bit<9> port) { s.egress_spec = port; h.a.x = 1; }
        action no() { mark_to_drop(s); }
        table t {
            key = { h.a.x: exact; h.a.z: lpm; m.m: ternary; }
            actions = { to; no; } default_action = no(); size = 77;
        }";
    let found = of(&program(table, "t.apply();", "", ""));
    let hit = found.paths.iter().find(|path| path.sent).expect("a packet is sent");
    let lookup = &hit.counts.lookups[0];
    assert_eq!((lookup.key_text().as_str(), lookup.key_bits()), ("exact[8]+lpm[16]+ternary[32]", 56));
    assert_eq!((lookup.size, lookup.hit, lookup.data_bits), (77, true, 9));
    assert_eq!(lookup.action.as_deref(), Some("I.to"));
    assert_eq!((hit.x(), hit.states.as_slice()), ([4, 1, 0, 0, 0, 0], ["start".to_string()].as_slice()));
    assert!(hit.decisions.iter().any(|what| what.contains("I.t hits I.to")), "{:?}", hit.decisions);
    let miss = found.paths.iter().find(|path| !path.counts.lookups[0].hit).expect("a packet misses");
    assert_eq!((miss.sent, miss.x(), miss.counts.emitted), (false, [4, 0, 0, 0, 0, 0], 0));
}

#[test]
fn copies_of_a_packet_count_separately() {
    let path = only(&program("", "clone(CloneType.I2E, 1); h.a.x = h.a.x + 1;", "h.a2.x = 1;", ""));
    assert_eq!((path.x(), path.counts.packet_copies, path.sent), ([4, 2, 0, 0, 0, 0], 1, true));
    assert_eq!(path.copies.len(), 1);
    assert_eq!((path.copies[0].modified, path.copies[0].emitted), (1, 5), "{:?}", path.copies);
    let second = "if (s.instance_type == 4) { h.a.setInvalid(); }";
    let first = "if (h.a.isValid()) { recirculate_preserving_field_list(0); }";
    let path = only(&program("", second, first, ""));
    assert_eq!((path.x(), path.counts.packet_copies), ([4, 0, 0, 0, 0, 0], 1));
    let copy = &path.copies[0];
    assert_eq!((copy.parsed, copy.removed, copy.emitted), (5, 1, 4), "{copy:?}");
}

/// A loop of the parser: headers count as often as they are extracted, and each length is a path.
#[test]
fn loops_of_parsers_are_paths() {
    let text = program("", "h.s.pop_front(1);", "", "").replace(
        "state start {",
        "state start { p.extract(h.s.next); transition select(h.s.last.x) { 0: start; default: rest; } } state rest {",
    );
    let text =
        text.replace("p.extract(h.s.next); p.extract(h.s.next); p.extract(h.u.a);", "p.extract(h.u.a);");
    let found = of(&text);
    let mut counts: Vec<_> = found
        .paths
        .iter()
        .filter(|path| path.states.last().is_some_and(|state| state == "rest"))
        .map(|path| (path.states.len(), path.counts.parsed, path.counts.copied, path.counts.removed))
        .collect();
    counts.sort_unstable();
    assert_eq!(
        counts,
        [(2, 4, 0, 1), (3, 5, 1, 1), (4, 6, 2, 1), (5, 7, 3, 1)],
        "{}",
        found.markdown("test")
    );
}
