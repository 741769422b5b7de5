//! Tests what lowered programs do to packets, on both engines.
//!
//! Every test inserts parser states, an ingress control and so on into a common program around a header `h` of four bytes
//! `a b c d`, sends `frame` bytes to port 3 and checks the output. Blind spot: tables have only the entries of the
//! program.

use crate::common;

use crate::common::run_text;

/// The variable parts of a test program.
#[derive(Default)]
struct Pieces<'a> {
    /// Text before the includes.
    before: &'a str,
    /// Declarations before the parser.
    top: &'a str,
    /// Fields of `metadata_t`, after `x` and `y`.
    meta: &'a str,
    /// Headers after `h`.
    headers: &'a str,
    /// Parser states; `start` extracts `h` if this is empty.
    states: &'a str,
    verify: &'a str,
    /// Declarations of the ingress control.
    locals: &'a str,
    ingress: &'a str,
    egress: &'a str,
    compute: &'a str,
}

impl Pieces<'_> {
    fn text(&self) -> String {
        let states = match self.states {
            "" => "state start { packet.extract(hdr.h); transition accept; }",
            states => states,
        };
        format!(
            "{before}
#include <core.p4>
#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; }}
{top}
struct headers_t {{ h_t h; {headers} }}
struct metadata_t {{ bit<8> x; bit<8> y; {meta} }}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ {states} }}
control V(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {verify} }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ sm.egress_spec = 1; {ingress} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{ apply {{ {egress} }} }}
control C(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {compute} }} }}
control D(packet_out packet, in headers_t hdr) {{ apply {{ packet.emit(hdr); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
",
            before = self.before,
            top = self.top,
            headers = self.headers,
            meta = self.meta,
            verify = self.verify,
            locals = self.locals,
            ingress = self.ingress,
            egress = self.egress,
            compute = self.compute,
        )
    }

    /// Returns port and frame of the output, or why there is none.
    fn run(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), String> {
        let mut processed = run_text(&self.text(), frame);
        match processed.sent.pop() {
            Some(sent) => Ok(sent),
            None => Err(processed.dropped.pop().expect("sent or dropped")),
        }
    }

    /// Exactly these packets are sent, in this order.
    #[track_caller]
    fn check_all(&self, frame: &[u8], expected: &[(u32, &[u8])]) {
        let expected: Vec<_> = expected.iter().map(|(port, frame)| (*port, frame.to_vec())).collect();
        assert_eq!(run_text(&self.text(), frame).sent, expected);
    }

    /// The frame that leaves by port 1.
    #[track_caller]
    fn check(&self, frame: &[u8], expected: &[u8]) {
        assert_eq!(self.run(frame), Ok((1, expected.to_vec())));
    }
}

#[track_caller]
fn ingress(code: &str, frame: &[u8], expected: &[u8]) {
    Pieces { ingress: code, ..Pieces::default() }.check(frame, expected);
}

#[test]
fn a_packet_goes_to_egress_spec_and_keeps_its_payload() {
    ingress("hdr.h.b = 9;", &[1, 2, 3, 4, 5], &[1, 9, 3, 4, 5]);
    assert_eq!(
        Pieces { ingress: "sm.egress_spec = 7;", ..Pieces::default() }.run(&[0; 4]),
        Ok((7, vec![0; 4]))
    );
    assert_eq!(
        Pieces { ingress: "sm.egress_spec = sm.ingress_port;", ..Pieces::default() }.run(&[0; 4]),
        Ok((3, vec![0; 4]))
    );
}

#[test]
fn mark_to_drop_drops_after_ingress_and_after_egress() {
    let reason = Err("egress_spec is the drop port (mark_to_drop)".to_string());
    let drop = "mark_to_drop(sm);";
    assert_eq!(Pieces { ingress: drop, ..Pieces::default() }.run(&[0; 4]), reason);
    assert_eq!(Pieces { egress: drop, ..Pieces::default() }.run(&[0; 4]), reason);
    // The value that ingress left in egress_spec is gone when egress starts.
    let seen = Pieces {
        egress: "hdr.h.a = sm.egress_spec[7:0]; hdr.h.b = sm.egress_port[7:0];",
        ..Pieces::default()
    };
    seen.check(&[9, 9, 0, 0], &[0, 1, 0, 0]);
}

#[test]
fn egress_cannot_change_the_port() {
    Pieces { egress: "sm.egress_port = 5; hdr.h.a = sm.egress_port[7:0];", ..Pieces::default() }
        .check(&[0; 4], &[5, 0, 0, 0]);
}

#[test]
fn ingress_clones_are_parsed_again_and_begin_egress_with_preserved_fields() {
    let p = Pieces {
        meta: "@field_list(1) bit<8> kept; bit<8> lost;",
        states: "state start { packet.extract(hdr.h); meta.x = 4; transition accept; }",
        ingress:
            "clone_preserving_field_list(CloneType.I2E, 5, 1); meta.kept = 7; meta.lost = 7; hdr.h.a = 9;
            hdr.h.b = sm.instance_type[7:0];",
        egress: "hdr.h.b = sm.instance_type[7:0]; hdr.h.c = meta.kept; hdr.h.d = meta.lost + meta.x
            + sm.ingress_port[7:0];",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4, 5], &[(5, &[1, 1, 7, 0, 5]), (1, &[9, 0, 7, 14, 5])]);
}

#[test]
fn the_last_clone_counts_and_its_session_cuts() {
    let p = Pieces {
        states: "state start { transition accept; }",
        ingress: "clone(CloneType.I2E, 5); clone(CloneType.I2E, 6); mark_to_drop(sm);",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4, 5, 6], &[(6, &[1, 2, 3, 4, 5])]);
    let no_session = Pieces { ingress: "clone(CloneType.I2E, 99);", ..Pieces::default() };
    no_session.check_all(&[1, 2, 3, 4], &[(1, &[1, 2, 3, 4])]);
}

#[test]
fn egress_clones_have_the_headers_as_egress_left_them() {
    let p = Pieces {
        meta: "@field_list(2) bit<8> kept;",
        egress: "if (sm.instance_type == 2) { hdr.h.b = meta.kept; hdr.h.c = sm.packet_length[7:0]; hdr.h.d = meta.x; }
            else { meta.kept = 6; meta.x = 6; hdr.h.a = 8; clone_preserving_field_list(CloneType.E2E, 5, 2);
                   mark_to_drop(sm); }",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4, 5], &[(5, &[8, 6, 5, 0, 5])]);
}

#[test]
fn resubmitted_packets_are_as_received() {
    let p = Pieces {
        meta: "@field_list(1) bit<8> turns;",
        ingress: "if (meta.turns < 3) { meta.turns = meta.turns + 1; meta.x = 1; hdr.h.a = 9;
                resubmit_preserving_field_list(1); }
            hdr.h.b = sm.instance_type[7:0]; hdr.h.c = meta.turns; hdr.h.d = meta.x + sm.ingress_port[7:0];",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4, 5], &[(1, &[1, 6, 3, 0, 5])]);
    // Before multicast and drop.
    let p = Pieces {
        ingress: "if (sm.instance_type == 0) { resubmit<bit<8>>(1); sm.mcast_grp = 7; mark_to_drop(sm); }",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4], &[(1, &[1, 2, 3, 4])]);
}

#[test]
fn recirculated_packets_are_as_sent() {
    let p = Pieces {
        meta: "@field_list(1) bit<8> turns;",
        ingress: "hdr.h.c = sm.instance_type[7:0]; hdr.h.d = sm.packet_length[7:0];",
        egress: "hdr.h.a = hdr.h.a + 1; hdr.h.b = sm.instance_type[7:0]; meta.turns = meta.turns + 1;
            if (meta.turns < 3) { recirculate_preserving_field_list(1); truncate(5); }",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4, 5, 6, 7], &[(1, &[4, 0, 4, 5, 5])]);
}

#[test]
fn multicast_replicates_into_egress() {
    let p = Pieces {
        ingress: "sm.mcast_grp = 7; meta.x = 5; clone(CloneType.I2E, 5);",
        egress: "hdr.h.a = sm.egress_rid[7:0]; hdr.h.b = sm.instance_type[7:0]; hdr.h.c = meta.x;
            hdr.h.d = sm.egress_port[7:0];",
        ..Pieces::default()
    };
    p.check_all(&[1, 2, 3, 4], &[(5, &[3, 1, 0, 5]), (8, &[1, 5, 5, 8]), (9, &[2, 5, 5, 9])]);
    let empty = Pieces { ingress: "sm.mcast_grp = 70;", ..Pieces::default() };
    empty.check_all(&[1, 2, 3, 4], &[]);
}

#[test]
fn truncate_cuts_the_frame_to_the_shortest_length() {
    let p = Pieces { ingress: "truncate(6); truncate(3); truncate(5);", ..Pieces::default() };
    p.check_all(&[1, 2, 3, 4, 5, 6, 7], &[(1, &[1, 2, 3])]);
}

#[test]
fn registers_hold_values_of_any_type() {
    let p = Pieces {
        top: "struct pair_t { bit<8> first; bool flag; h_t inner; }",
        locals: "register<pair_t>(2) cells; register<bool>(1) flags;",
        ingress: "pair_t p = { 7, true, { 1, 2, 3, 4 } }; cells.write(1, p); pair_t q; cells.read(q, 1);
            if (q.flag && q.inner.isValid()) { hdr.h = q.inner; hdr.h.b = q.first; }
            cells.read(q, 0); if (q.inner.isValid()) { hdr.h.c = 9; }
            flags.write(0, true); bool f; flags.read(f, 0); if (f) { hdr.h.d = 8; }",
        ..Pieces::default()
    };
    p.check(&[0; 4], &[1, 7, 3, 8]);
}

#[test]
fn a_short_packet_reaches_ingress_with_its_error() {
    let p = Pieces {
        ingress: "if (sm.parser_error == error.PacketTooShort) { hdr.h.setValid(); hdr.h.d = 7; }",
        ..Pieces::default()
    };
    p.check(&[1, 2], &[0, 0, 0, 7, 1, 2]);
}

#[test]
fn verify_and_select_report_their_errors() {
    let p = Pieces {
        states: "state start {
                packet.extract(hdr.h);
                verify(hdr.h.a != 1, error.HeaderTooShort);
                transition select(hdr.h.a) { 2: accept; 3: reject; 4: next; }
            }
            state next { packet.advance(3); transition accept; }",
        ingress: "if (sm.parser_error == error.HeaderTooShort) { hdr.h.d = 1; }
            else if (sm.parser_error == error.NoMatch) { hdr.h.d = 2; }
            else if (sm.parser_error == error.ParserInvalidArgument) { hdr.h.d = 3; }
            else if (sm.parser_error == error.NoError) { hdr.h.d = 4; }",
        ..Pieces::default()
    };
    for (input, found) in [(1, 1), (2, 4), (3, 4), (4, 3), (5, 2)] {
        p.check(&[input, 0, 0, 0], &[input, 0, 0, found]);
    }
}

#[test]
fn an_endless_parser_times_out() {
    let p = Pieces {
        states: "state start { packet.extract(hdr.h); transition spin; }
            state spin { meta.x = meta.x + 1; transition select(hdr.h.a) { 0: accept; default: spin; } }",
        ingress: "if (sm.parser_error == error.ParserTimeout) { hdr.h.d = 9; }",
        ..Pieces::default()
    };
    p.check(&[1, 0, 0, 0], &[1, 0, 0, 9]);
    p.check(&[0, 0, 0, 0], &[0, 0, 0, 0]);
}

#[test]
fn stacks_overflow_with_an_error() {
    let p = Pieces {
        top: "header s_t { bit<8> v; }",
        headers: "s_t[2] s;",
        meta: "bit<32> last;",
        states: "state start { packet.extract(hdr.s.next); transition select(hdr.s.last.v) { 0: done; default: start; } }
            state done { meta.last = hdr.s.lastIndex; transition accept; }",
        ingress: "hdr.h.setValid();
            hdr.h.a = meta.last[7:0];
            hdr.h.b = hdr.s[1].v;
            if (sm.parser_error == error.StackOutOfBounds) { hdr.h.c = 1; }
            if (hdr.s[1].isValid()) { hdr.h.d = 1; }
            hdr.s[0].setInvalid();
            hdr.s[1].setInvalid();",
        ..Pieces::default()
    };
    p.check(&[0], &[0, 0, 0, 0]);
    p.check(&[5, 0], &[1, 0, 0, 1]);
    p.check(&[5, 6, 7], &[0, 6, 1, 1, 7]);
}

#[test]
fn run_time_indices_outside_read_zero_and_write_nothing() {
    let p = Pieces {
        top: "header s_t { bit<8> v; }",
        headers: "s_t[2] s;",
        states: "state start { packet.extract(hdr.h); packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }",
        ingress: "hdr.h.d = hdr.s[hdr.h.a].v; hdr.s[hdr.h.b].v = 77;",
        ..Pieces::default()
    };
    p.check(&[1, 0, 0, 0, 5, 6], &[1, 0, 0, 6, 77, 6]);
    p.check(&[2, 9, 0, 0, 5, 6], &[2, 9, 0, 0, 5, 6]);
}

#[test]
fn push_and_pop_move_elements() {
    let p = |code| Pieces {
        top: "header s_t { bit<8> v; }",
        headers: "s_t[3] s;",
        states: "state start { packet.extract(hdr.s.next); packet.extract(hdr.s.next); packet.extract(hdr.s.next); transition accept; }",
        ingress: code,
        ..Pieces::default()
    };
    p("hdr.s.push_front(1);").check(&[1, 2, 3], &[1, 2]);
    p("hdr.s.pop_front(2);").check(&[1, 2, 3], &[3]);
    p("hdr.s.push_front(1); hdr.s[0].setValid(); hdr.s[0].v = 9;").check(&[1, 2, 3], &[9, 1, 2]);
    p("hdr.s.push_front(9);").check(&[1, 2, 3], &[]);
}

#[test]
fn unions_hold_one_member() {
    let p = |code| Pieces {
        top: "header a_t { bit<8> v; } header b_t { bit<16> v; } header_union u_t { a_t a; b_t b; }",
        headers: "u_t u;",
        states: "state start { packet.extract(hdr.h); transition select(hdr.h.a) { 0: one; default: two; } }
            state one { packet.extract(hdr.u.a); transition accept; }
            state two { packet.extract(hdr.u.b); transition accept; }",
        ingress: code,
        ..Pieces::default()
    };
    p("").check(&[0, 0, 0, 0, 5], &[0, 0, 0, 0, 5]);
    p("hdr.u.b.setValid();").check(&[0, 0, 0, 0, 5], &[0, 0, 0, 0, 0, 0]);
    p("a_t n; n = { 8 }; hdr.u.a = n;").check(&[1, 0, 0, 0, 5, 6], &[1, 0, 0, 0, 8]);
    p("a_t n; hdr.u.a = n;").check(&[1, 0, 0, 0, 5, 6], &[1, 0, 0, 0]);
    p("hdr.u = (u_t) {#};").check(&[1, 0, 0, 0, 5, 6], &[1, 0, 0, 0]);
}

#[test]
fn invalid_headers_keep_their_fields() {
    ingress(
        "bit<8> k = hdr.h.a; hdr.h.setInvalid(); bit<8> r = hdr.h.a; hdr.h.setValid(); hdr.h.b = k; hdr.h.c = r;",
        &[5, 6, 7, 8],
        &[0, 5, 5, 0],
    );
}

#[test]
fn copies_are_in_order() {
    let top = "void swap(inout bit<8> l, inout bit<8> r) { bit<8> t = l; l = r; r = t; }
        void both(out bit<8> l, out bit<8> r) { l = 1; r = 2; }
        bit<8> bump(inout bit<8> v) { v = v + 1; return v; }";
    let p = |code| Pieces { top, ingress: code, ..Pieces::default() };
    p("swap(hdr.h.a, hdr.h.b);").check(&[1, 2, 3, 4], &[2, 1, 3, 4]);
    // Copy-out is from left to right: the last value remains.
    p("both(hdr.h.a, hdr.h.a);").check(&[9, 2, 3, 4], &[2, 2, 3, 4]);
    p("hdr.h.a = hdr.h.b + bump(hdr.h.b) + hdr.h.b;").check(&[0, 2, 3, 4], &[8, 3, 3, 4]);
    p("hdr.h = { hdr.h.d, hdr.h.c, hdr.h.b, hdr.h.a };").check(&[1, 2, 3, 4], &[4, 3, 2, 1]);
    p("hdr.h.a[3:0] = hdr.h.b[7:4];").check(&[0xff, 0x12, 3, 4], &[0xf1, 0x12, 3, 4]);
    // The index is the one before the call.
    p("if (hdr.h.a == 0 || bump(hdr.h.b) == 0) { hdr.h.c = 1; }").check(&[0, 5, 0, 0], &[0, 5, 1, 0]);
    p("if (hdr.h.a == 0 || bump(hdr.h.b) == 0) { hdr.h.c = 1; }").check(&[1, 5, 0, 0], &[1, 6, 0, 0]);
}

#[test]
fn actions_see_their_control_while_arguments_are_copies() {
    let p = Pieces {
        locals: "action a(inout bit<8> v, in bit<8> w) { v = w; hdr.h.a = 1; if (w == 3) { exit; } v = v + hdr.h.a; }",
        ingress: "a(hdr.h.a, hdr.h.b); hdr.h.c = 9;",
        ..Pieces::default()
    };
    p.check(&[0, 5, 0, 0], &[6, 5, 9, 0]);
    // `exit` copies out and skips the rest.
    p.check(&[0, 3, 0, 0], &[3, 3, 0, 0]);
}

#[test]
fn exit_ends_the_block_and_return_the_control() {
    let top = "control Sub(inout bit<8> v, in bit<8> how) {
            apply { v = 1; if (how == 1) { return; } if (how == 2) { exit; } v = 2; }
        }";
    let p = Pieces {
        top,
        locals: "Sub() one; Sub() two;",
        ingress: "one.apply(hdr.h.a, hdr.h.d); hdr.h.b = 7; two.apply(hdr.h.c, 0);",
        ..Pieces::default()
    };
    p.check(&[0, 0, 0, 0], &[2, 7, 2, 0]);
    p.check(&[0, 0, 0, 1], &[1, 7, 2, 1]);
    p.check(&[0, 0, 0, 2], &[1, 0, 0, 2]);
}

#[test]
fn variables_are_fresh_each_time() {
    let top = "control Count(inout bit<8> v) { bit<8> n; apply { n = n + 1; v = v + n; } }
        bit<8> count() { bit<8> n; n = n + 1; return n; }";
    let p = |code| Pieces { top, locals: "Count() c;", ingress: code, ..Pieces::default() };
    p("c.apply(hdr.h.a); c.apply(hdr.h.a); c.apply(hdr.h.b);").check(&[0; 4], &[2, 1, 0, 0]);
    p("hdr.h.a = count() + count();").check(&[0; 4], &[2, 0, 0, 0]);
    p("for (bit<8> i in 8w1 .. 3) { bit<8> n; n = n + i; hdr.h.a = hdr.h.a + n; }")
        .check(&[0; 4], &[6, 0, 0, 0]);
}

#[test]
fn loops_break_continue_and_end() {
    ingress(
        "for (bit<8> i = 0; i < 10; i = i + 1) { if (i == 2) { continue; } if (i == 5) { break; } hdr.h.a = hdr.h.a + i; }",
        &[0; 4],
        &[8, 0, 0, 0],
    );
    // The last value of the type ends the loop.
    ingress("for (bit<8> i in 8w250 .. 255) { hdr.h.a = hdr.h.a + 1; }", &[0; 4], &[6, 0, 0, 0]);
    ingress(
        "for (bit<8> i in (list<bit<8>>) { 1, 5, 9 }) { if (i == 5) { continue; } hdr.h.a = hdr.h.a + i; }",
        &[0; 4],
        &[10, 0, 0, 0],
    );
    let p = Pieces { ingress: "for (; hdr.h.a == 0;) { hdr.h.b = 1; }", ..Pieces::default() };
    assert_eq!(p.run(&[0; 4]), Err("loop ran too long".into()));
}

#[test]
fn a_packet_takes_fewer_turns_that_do_more_work() {
    // Each turn counts as about 24.
    let code = format!(
        "bit<2048> w = (bit<2048>) hdr.h.a; bit<16> n = hdr.h.a ++ hdr.h.b;
         for (bit<16> i = 0; i != n; i = i + 1) {{ {} }} hdr.h.c = w[7:0];",
        "w = w * w; ".repeat(3)
    );
    let p = Pieces { ingress: &code, ..Pieces::default() };
    p.check(&[3, 0, 0, 0], &[3, 0, 1, 0]);
    assert_eq!(p.run(&[0x20, 0, 0, 0]), Err("loop ran too long".into()));
    // A loop that the compiler can bound does not do more, either.
    let p = Pieces { ingress: &code.replace("i != n", "i < 0x2000"), ..Pieces::default() };
    assert_eq!(p.run(&[3, 0, 0, 0]), Err("loop ran too long".into()));
}

#[test]
fn tables_run_their_actions() {
    let p = Pieces {
        locals: "action put(inout bit<8> v, bit<8> n) { v = v + n; }
            action stop() { exit; }
            table t {
                key = { hdr.h.a : ternary; }
                actions = { put(hdr.h.b); stop; }
                default_action = stop();
                const entries = { 1: put(hdr.h.b, 10); 0 &&& 1: put(hdr.h.b, 20); 2: stop(); }
            }",
        ingress: "switch (t.apply().action_run) { put: { hdr.h.c = 1; } default: { hdr.h.c = 2; } } hdr.h.d = 3;",
        ..Pieces::default()
    };
    p.check(&[1, 0, 0, 0], &[1, 10, 1, 3]);
    // The first matching entry wins.
    p.check(&[2, 0, 0, 0], &[2, 20, 1, 3]);
    p.check(&[3, 0, 0, 0], &[3, 0, 0, 0]);
}

#[test]
fn hit_and_miss() {
    let p = Pieces {
        locals: "table t { key = { hdr.h.a : exact; } actions = { NoAction; } const entries = { 1: NoAction(); } }",
        ingress: "if (t.apply().hit) { hdr.h.b = 1; } if (t.apply().miss && hdr.h.a != 9) { hdr.h.c = 1; }",
        ..Pieces::default()
    };
    p.check(&[1, 0, 0, 0], &[1, 1, 0, 0]);
    p.check(&[2, 0, 0, 0], &[2, 0, 1, 0]);
    p.check(&[9, 0, 0, 0], &[9, 0, 0, 0]);
}

/// `@tableonly` forbids that the control plane makes the action the default; without `default_action`, the program does.
#[test]
fn a_table_only_no_action_is_the_implicit_default() {
    let p = Pieces {
        locals: "action put(bit<8> x) { hdr.h.b = x; }
                 table t { key = { hdr.h.a : exact; } actions = { put; @tableonly NoAction; } const entries = { 1: put(7); } }",
        ingress: "t.apply();",
        ..Pieces::default()
    };
    p.check(&[1, 0, 0, 0], &[1, 7, 0, 0]);
    p.check(&[2, 0, 0, 0], &[2, 0, 0, 0]);
}

#[test]
fn checksums_are_checked_and_updated() {
    let data = "{ hdr.h.a, hdr.h.b }";
    let verify =
        format!("verify_checksum(hdr.h.isValid(), {data}, hdr.h.c ++ hdr.h.d, HashAlgorithm.csum16);");
    let p = Pieces {
        verify: &verify,
        ingress: "if (sm.checksum_error == 1) { hdr.h.a = 0xee; }",
        ..Pieces::default()
    };
    p.check(&[0x12, 0x34, 0xed, 0xcb], &[0x12, 0x34, 0xed, 0xcb]);
    p.check(&[0x12, 0x34, 0xed, 0xcc], &[0xee, 0x34, 0xed, 0xcc]);
    let top = "header v_t { varbit<32> v; } header c_t { bit<16> sum; }";
    let states = "state start { packet.extract(hdr.c); packet.extract(hdr.h); packet.extract(hdr.v, (bit<32>) hdr.h.d << 3); transition accept; }";
    let sum = |function: &str, frame: &[u8]| {
        let compute =
            format!("{function}(true, {{ hdr.h.a, hdr.v.v, hdr.h.b }}, hdr.c.sum, HashAlgorithm.csum16);");
        let p = Pieces { top, headers: "c_t c; v_t v;", states, compute: &compute, ..Pieces::default() };
        let frame = p.run(frame).expect("sent").1;
        u16::from_be_bytes([frame[4], frame[5]])
    };
    // The headers are emitted as h, c, v. Data: 01, two bytes, 02; the payload is 01 00.
    let even = [0, 0, 0x01, 0x02, 0, 2, 0x02, 0x02, 0x01, 0x00];
    assert_eq!(sum("update_checksum", &even), !(0x0102 + 0x0202));
    assert_eq!(sum("update_checksum_with_payload", &even), !(0x0102 + 0x0202 + 0x0100));
    // Data: 01, one byte, 02; the payload 04 is the low half of the word that starts with 02.
    let odd = [0, 0, 0x01, 0x02, 0, 1, 0x03, 0x04];
    assert_eq!(sum("update_checksum", &odd), !(0x0103 + 0x0200));
    assert_eq!(sum("update_checksum_with_payload", &odd), !(0x0103 + 0x0204));
}

#[test]
fn hashes_are_scaled() {
    let p = |code| Pieces { ingress: code, ..Pieces::default() };
    p("hash(hdr.h.d, HashAlgorithm.identity, 8w3, { hdr.h.a }, 8w10);")
        .check(&[57, 0, 0, 0], &[57, 0, 0, 10]);
    p("hash(hdr.h.d, HashAlgorithm.identity, 8w3, { hdr.h.a }, 8w0);").check(&[57, 0, 0, 0], &[57, 0, 0, 3]);
    p("hash(hdr.h.d, HashAlgorithm.identity, 16w0x1ff, { hdr.h.a }, 64w0xffff);")
        .check(&[2, 0, 0, 0], &[2, 0, 0, 1]);
}

#[test]
fn registers_keep_values_between_calls() {
    let p = Pieces {
        top: "register<bit<8>>(4) r;",
        ingress: "bit<8> v; r.write(1, hdr.h.a); r.read(v, 1); hdr.h.b = v; r.read(hdr.h.c, 2);",
        ..Pieces::default()
    };
    p.check(&[5, 0, 9, 0], &[5, 5, 0, 0]);
}

#[test]
fn lookahead_and_length() {
    let p = Pieces {
        states: "state start { h_t l = packet.lookahead<h_t>(); meta.x = l.c + l.a; meta.y = packet.lookahead<bit<8>>();
            packet.advance(16); packet.extract(hdr.h); transition accept; }",
        ingress: "hdr.h.a = meta.x; hdr.h.b = meta.y; hdr.h.c = sm.packet_length[7:0];",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4, 5, 6, 7], &[4, 1, 7, 6, 7]);
}

#[test]
fn sub_parsers_extract_into_their_arguments() {
    let p = Pieces {
        top: "parser Sub(packet_in packet, out h_t h, inout bit<8> n)(bit<8> step) {
                state start { n = n + step; packet.extract(h); transition accept; }
            }",
        headers: "h_t i;",
        states: "Sub(3) one; Sub(5) two;
            state start { one.apply(packet, hdr.h, meta.x); two.apply(packet, hdr.i, meta.x); transition accept; }",
        ingress: "hdr.h.a = meta.x;",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4, 5, 6, 7, 8], &[8, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn signed_arithmetic() {
    ingress(
        "int<8> s = (int<8>) hdr.h.a; if (s < 0) { hdr.h.b = 1; } hdr.h.c = (bit<8>) (s >> 1); hdr.h.d = ((bit<16>) (int<16>) s)[15:8];",
        &[0xfe, 0, 0, 0],
        &[0xfe, 1, 0xff, 0xff],
    );
}

#[test]
fn generic_functions_and_constructor_parameters() {
    let p = Pieces {
        top: "T pick<T>(in bool first, in T x, in T y) { return first ? x : y; }
            control Add(inout bit<8> v)(bit<8> n) { apply { v = v + n; } }",
        locals: "Add(3) three; Add(4) four;",
        ingress: "hdr.h.a = pick<bit<8>>(hdr.h.d == 0, hdr.h.b, hdr.h.c); three.apply(hdr.h.b); four.apply(hdr.h.b);",
        ..Pieces::default()
    };
    p.check(&[0, 1, 2, 0], &[1, 8, 2, 0]);
    p.check(&[0, 1, 2, 5], &[2, 8, 2, 5]);
}

#[test]
fn no_error_is_zero_in_any_order_of_declarations() {
    let p = Pieces {
        before: "error { Mine, Yours }",
        states: "state start { packet.extract(hdr.h); verify(hdr.h.a == 0, error.Yours); transition accept; }",
        ingress: "if (sm.parser_error == error.NoError) { hdr.h.b = 1; } else if (sm.parser_error == error.Yours) { hdr.h.b = 2; }",
        ..Pieces::default()
    };
    p.check(&[0, 0, 0, 0], &[0, 1, 0, 0]);
    p.check(&[1, 0, 0, 0], &[1, 2, 0, 0]);
}

#[test]
fn a_control_applied_at_several_places_keeps_its_table() {
    let p = Pieces {
        top: "control Sub(inout bit<8> v, in bit<8> n) {
                action add(bit<8> m) { v = v + n + m; }
                table t { key = { v : exact; } actions = { add; } const entries = { 1: add(10); 2: add(20); } }
                apply { t.apply(); }
            }
            control Outer(inout h_t h) { Sub() s; apply { s.apply(h.a, h.c); s.apply(h.b, 5); } }",
        locals: "Outer() o;",
        ingress: "o.apply(hdr.h); o.apply(hdr.h);",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 0], &[14, 27, 3, 0]);
    p.check(&[9, 9, 3, 0], &[9, 9, 3, 0]);
}

#[test]
fn a_sub_parser_applied_twice_copies() {
    let p = Pieces {
        top: "parser Sub(packet_in packet, inout h_t h) { state start { packet.extract(h); transition accept; } }",
        headers: "h_t i;",
        states: "Sub() sub;
            state start { sub.apply(packet, hdr.h); transition select(hdr.h.a) { 1: more; default: accept; } }
            state more { sub.apply(packet, hdr.i); transition accept; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    p.check(&[0, 2, 3, 4, 5], &[0, 2, 3, 4, 5]);
}

#[test]
fn values_that_a_call_changes_are_read_before_it() {
    let top = "bit<8> bump(inout bit<8> v) { v = v + 1; return v; } void set(inout bit<8> l, in bit<8> r) { l = r; }";
    let p = |code| Pieces { top, ingress: code, ..Pieces::default() };
    p("hdr.h = { hdr.h.a, bump(hdr.h.a), hdr.h.a, bump(hdr.h.a) };").check(&[5, 0, 0, 0], &[5, 6, 6, 7]);
    p("set(hdr.h.b, hdr.h.b + bump(hdr.h.b));").check(&[0, 5, 0, 0], &[0, 11, 0, 0]);
    p("set(hdr.h.a, hdr.h.a + 1); hdr.h.b = bump(hdr.h.c) == 1 ? bump(hdr.h.d) : bump(hdr.h.c);")
        .check(&[5, 0, 0, 0], &[6, 1, 1, 1]);
    p("bit<8> i = bump(hdr.h.a) + (hdr.h.b == 0 && bump(hdr.h.b) == 1 ? bump(hdr.h.b) : 8w0); hdr.h.d = i;")
        .check(&[0, 0, 0, 0], &[1, 2, 0, 3]);
}

#[test]
fn exit_inside_a_table_action_copies_out_of_the_controls_around() {
    let p = Pieces {
        top: "control Sub(inout bit<8> v) {
                action stop() { v = 9; exit; }
                table t { actions = { stop; } default_action = stop(); }
                apply { v = 1; t.apply(); v = 2; }
            }",
        locals: "Sub() s;",
        // A slice is not a variable, so it is copied.
        ingress: "if (hdr.h.b == 0) { s.apply(hdr.h.a[7:0]); } else { s.apply(hdr.h.c); } hdr.h.d = 1;",
        ..Pieces::default()
    };
    p.check(&[0, 0, 0, 0], &[9, 0, 0, 0]);
    p.check(&[0, 1, 0, 0], &[0, 1, 9, 0]);
}

#[test]
fn header_variables_need_not_be_whole_bytes() {
    let p = Pieces {
        top: "header odd_t { bit<3> v; }",
        ingress: "odd_t o; o.setValid(); o.v = hdr.h.a[2:0]; odd_t q; q = o;
            if (q.isValid() && q.v == 5) { hdr.h.b = 1; }",
        ..Pieces::default()
    };
    p.check(&[0xd, 0, 0, 0], &[0xd, 1, 0, 0]);
}

/// Returns the number of statements, nodes and expressions of a program.
fn size(program: &p4jet_ir::Program) -> usize {
    let mut size = 0;
    let actions = program.actions.iter().map(|a| &a.body);
    for node in actions.chain(program.blocks.iter().map(|b| &b.body)).flat_map(|body| &body.nodes) {
        let mut count = |e: &p4jet_ir::Expr| e.clone().rewrite(&mut |_| size += 1);
        node.stmts.iter().for_each(|stmt| stmt.op.for_each_expr(&mut count));
        node.terminator.for_each_expr(&mut count);
        size += 1 + node.stmts.len();
    }
    size
}

/// Returns the size of a program with a stack of `elements` elements and `accesses` times all operations with a run-time
/// index.
fn indexed(elements: usize, accesses: usize) -> usize {
    let again = |text: &str| text.repeat(accesses);
    let text = Pieces {
        top: "header e_t { bit<8> v; bit<8>[2] w; }
              header_union u_t { e_t p; e_t q; }
              struct cell_t { bit<8> x; bit<8>[4] y; }",
        headers: &format!("e_t[{elements}] s; u_t[{elements}] u;"),
        meta: &format!("cell_t[{elements}] m;"),
        states: &format!(
            "state start {{ packet.extract(hdr.h); {} transition accept; }}",
            again(
                "packet.extract(hdr.s.next); packet.extract(hdr.s[meta.x]); packet.extract(hdr.u.next.p);
                 meta.x = hdr.s.last.v + (bit<8>)hdr.s.lastIndex;"
            )
        ),
        ingress: &again(
            "hdr.s[hdr.h.a].v = hdr.s[hdr.s[hdr.h.b].w[hdr.h.c]].v + 1;
             meta.m[hdr.h.a].y[meta.m[hdr.h.b].x] = hdr.h.d;
             hdr.s[hdr.h.b] = hdr.s[hdr.h.d];
             hdr.s[hdr.h.c].setInvalid();
             hdr.s[hdr.h.d].setValid();
             if (hdr.u[hdr.h.a].q.isValid()) { hdr.u[hdr.h.b].p.setValid(); }",
        ),
        ..Pieces::default()
    };
    size(&common::lower(&text.text()))
}

#[test]
fn the_cost_of_an_index_does_not_depend_on_the_stack() {
    let [one, more] = [16, 128].map(|elements| indexed(elements, 2) - indexed(elements, 1));
    assert_eq!(one, more, "what one more use of each kind adds, with 16 elements and with 128");
    // The cost of an element does not depend on the number of indexed accesses.
    let [few, many] = [1, 8].map(|accesses| indexed(32, accesses) - indexed(16, accesses));
    assert_eq!(few, many, "what 16 more elements add, with one use of each kind and with eight");
}
