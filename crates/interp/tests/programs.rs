//! Small programs, their results for packets, and their traces.

use crate::common::{hex, program, run, run_traced, sent};
use p4jet_interp::Outcome;
use p4jet_ir::{DropReason, Program, text};

/// A small router: a header of type, address and time to live, routed by the address.
const ROUTER: &str = r#"
program router
errors NoError, PacketTooShort, HeaderTooShort
error_packet_too_short 1
error_header_too_short 2
drop_reasons "no route"
field meta.port: 9 metadata
field meta.error: 32 metadata
field route.port: 9 data route
field hdr.r.$valid$: 1 valid hdr.r
field hdr.r.type: 8 in hdr.r
field hdr.r.dst: 16 in hdr.r
field hdr.r.ttl: 8 in hdr.r
field dropped: 1 temp
header hdr.r valid hdr.r.$valid$ { hdr.r.type, hdr.r.dst, hdr.r.ttl }
instance routed direct_counter packets_and_bytes on routes
action route(route.port) @router.p4:10:5 {
  n0:
    meta.port = route.port @router.p4:11:9
    hdr.r.ttl = sub(hdr.r.ttl, 0x1:8) @router.p4:12:9
    return
}
action drop() @router.p4:15:5 {
  n0:
    meta.port = 0x1ff:9 @router.p4:16:9
    return
}
table routes @router.p4:20:5 {
  key hdr.r.dst: 16 lpm
  action route
  action drop
  default drop()
  size 16
  entry 0 (0xa00/8) route(0x3)
  entry 0 (0xa01/16) route(0x4)
  direct routed
}
block parse parser error meta.error {
  n0 "start":
    extract hdr.r @router.p4:30:9
    switch hdr.r.type { 0x7: n1 } else n2 @router.p4:31:9
  n1 "known":
    return
  n2 "other":
    hdr.r.$valid$ = 0x0:1
    return
}
block control control {
  n0:
    if hdr.r.$valid$ then n1 else n2 @router.p4:40:9
  n1:
    apply routes(hdr.r.dst) next n2 exit n2 @router.p4:41:9
  n2:
    dropped = eq(meta.port, 0x1ff:9) @router.p4:42:9
    if dropped then n3 else n4 @router.p4:42:9
  n3:
    drop "no route" @router.p4:43:9
  n4:
    return
}
block deparse deparser {
  n0:
    emit hdr.r @router.p4:50:9
    return
}
ingress parse, control
egress deparse
egress_port meta.port
"#;

fn dropped(p: &Program, reason: DropReason, place: &str) -> Outcome {
    let at = p.locs.iter().position(|l| format!("{}:{}:{}", l.file, l.line, l.column) == place);
    Outcome::Dropped { reason, at: p4jet_ir::Loc(at.unwrap() as u32) }
}

#[test]
fn router() {
    let p = program(ROUTER);
    let frames = ["07 0a02 40 beef", "07 0a01 00", "07 0b00 40", "08 0a02 40 beef", "07 0a"].map(hex);
    let expected = [
        sent(3, "07 0a02 3f beef"),
        sent(4, "07 0a01 ff"),
        dropped(&p, DropReason::Program(0), "router.p4:43:9"),
        // Another type: extracted but not emitted.
        sent(0, "beef"),
        // Too short: nothing is extracted.
        sent(0, "07 0a"),
    ];
    assert_eq!(run(&p, &frames), expected);
}

#[test]
fn trace_of_a_hit() {
    let p = program(ROUTER);
    let (_, trace) = &run_traced(&p, &[hex("07 0a02 40 beef")])[0];
    let expected = "\
packet of 6 bytes arrives at port 1
parser parse
  start
    extract hdr.r, 0 bytes into the frame  [router.p4:30:9]
      hdr.r.type = 7
      hdr.r.dst = 0xa02 (2562)
      hdr.r.ttl = 0x40 (64)
    select hdr.r.type: 7  [router.p4:31:9]
  known
control control
    if hdr.r.isValid(): true  [router.p4:40:9]
    table routes  [router.p4:41:9]
      key hdr.r.dst (lpm) = 0xa02 (2562)
      hit entry 0x0: 0xa00 (2560)/8, in the program
      action route(port = 3)  [router.p4:10:5]
        meta.port: 0 -> 3  [router.p4:11:9]
        hdr.r.ttl: 0x40 (64) -> 0x3f (63)  [router.p4:12:9]
    if dropped: false  [router.p4:42:9]
deparser deparse
    emit hdr.r, 4 bytes  [router.p4:50:9]
  the frame is now 4 bytes of headers and 2 of payload
6 bytes leave by port 3
  because meta.port = 3, written by action route of table routes  [router.p4:11:9]
";
    assert_eq!(trace.render(&p), expected);
}

#[test]
fn traces_use_the_control_plane_name() {
    let renamed = ROUTER
        .replace("data route", "data route_2")
        .replace("route.port", "route_2.port")
        .replace("action route(", "action route_2 as route(")
        .replace("action route\n", "action route_2\n")
        .replace(") route(", ") route_2(");
    let (p, renamed) = (program(ROUTER), program(&renamed));
    let frame = [hex("07 0a02 40 beef")];
    let ((_, trace), (_, of_renamed)) = (&run_traced(&p, &frame)[0], &run_traced(&renamed, &frame)[0]);
    assert_eq!(of_renamed.render(&renamed), trace.render(&p));
    assert_eq!(of_renamed.to_json(&renamed), trace.to_json(&p));
}

#[test]
fn trace_of_a_drop() {
    let p = program(ROUTER);
    let (_, trace) = &run_traced(&p, &[hex("07 0b00 40")])[0];
    let text = trace.render(&p);
    let miss = "
      miss, so the default action runs
      nearest: entry 0x0: 0xa00 (2560)/8, in the program
        but hdr.r.dst is 0xb00 (2816), not 0xa00 (2560)
      nearest: entry 0x1: 0xa01 (2561)/16, in the program
        but hdr.r.dst is 0xb00 (2816), not 0xa01 (2561)
      action drop()  [router.p4:15:5]
";
    assert!(text.contains(miss), "{text}");
    // The cause is found through the temporary that the condition tests.
    let end = "\
dropped: no route  [router.p4:43:9]
  because meta.port = 0x1ff (511), written by action drop of table routes  [router.p4:16:9]
";
    assert!(text.ends_with(end), "{text}");
    let json = trace.to_json(&p);
    let last = json.as_array().unwrap().last().unwrap();
    assert_eq!(last["step"], "dropped");
    assert_eq!(last["because"][0]["field"], "meta.port");
    assert_eq!(last["because"][0]["action"], "drop");
    assert_eq!(last["because"][0]["at"], "router.p4:16:9");
}

#[test]
fn trace_of_a_short_packet() {
    let p = program(ROUTER);
    let (_, trace) = &run_traced(&p, &[hex("07 0a")])[0];
    let text = trace.render(&p);
    assert!(
        text.contains("cannot extract hdr.r: it takes 4 bytes, 2 bytes are left  [router.p4:30:9]"),
        "{text}"
    );
    assert!(text.contains("meta.error: error.NoError -> error.PacketTooShort"), "{text}");
}

#[test]
fn direct_counters_count_hits_only() {
    let p = program(ROUTER);
    let machine = p4jet_interp::Machine::new(&p).unwrap();
    let tables = p4jet_interp::build_tables(&p).unwrap();
    let state = p4jet_interp::build_state(&p, 1).unwrap();
    let mut env = state.env(0);
    for frame in ["07 0a02 40 beef", "07 0b00 40"].map(hex) {
        let packet = p4jet_interp::Arrival { port: 0, frame: &frame, now_us: 0 };
        machine.run(tables.as_slice(), &mut env, &packet, None);
    }
    let counts: Vec<_> = tables[0]
        .entries()
        .map(|(handle, _)| state.counter_read(0, tables[0].row_of(handle)).unwrap())
        .collect();
    assert_eq!(counts.iter().map(|c| c.packets).sum::<u64>(), 1);
    assert_eq!(counts.iter().map(|c| c.bytes).sum::<u64>(), 6);
}

/// A header of a length in bytes, options of that length, and 4 bits that end off the byte boundary.
const OPTIONS: &str = r#"
program options
errors NoError, PacketTooShort, HeaderTooShort
error_packet_too_short 1
error_header_too_short 2
field meta.error: 32 metadata
field first.$valid$: 1 valid first
field first.len: 8 in first
field rest.$valid$: 1 valid rest
field rest.options: 32 in rest
field rest.options.len: 32 temp
field rest.tail: 8 in rest
field peek: 8 metadata
header first valid first.$valid$ { first.len }
header rest valid rest.$valid$ { rest.options varbit rest.options.len, rest.tail }
block parse parser error meta.error {
  n0:
    extract first
    lookahead peek
    extract rest varbit shl(zext(first.len, 32), 0x3:8)
    return
}
block deparse deparser {
  n0:
    rest.tail = rest.tail[7:0]
    emit rest
    emit first
    return
}
ingress parse
egress deparse
egress_port meta.error
"#;

#[test]
fn varbits() {
    let p = program(OPTIONS);
    let frames = ["02 aabb cd ee", "00 c0", "05 aabbccddeeff00", "02 aa", "01", ""].map(hex);
    let expected = [
        // Emitted in another order.
        sent(0, "aabb cd 02 ee"),
        sent(0, "c0 00"),
        sent(2, "05 aabbccddeeff00"),
        sent(1, "02 aa"),
        sent(1, "01"),
        sent(1, ""),
    ];
    assert_eq!(run(&p, &frames), expected);
}

#[test]
fn loops_end() {
    let p = program(
        r#"
        program loop
        drop_reasons "loop ran too long"
        field $turns: 32 temp
        field meta.n: 32 metadata
        field meta.port: 32 metadata
        turns $turns
        block a control { n0: meta.n = add(meta.n, 0x1:32) if eq(meta.n, 0xc351:32) then n3 else n1
          n1: turn n0 else n2 n2: drop #0 @loop.p4:1:1 n3: meta.n = 0x0:32 return }
        block b control { n0: meta.n = add(meta.n, 0x1:32) turn n0 else n1 n1: meta.port = meta.n return }
        ingress a, b
        egress_port meta.port
        "#,
    );
    // 50,000 turns in one block leave 15,536 for the next.
    assert_eq!(run(&p, &[vec![]]), [sent(15_537, "")]);
    let spent = text::print(&p).replace("0xc351", "0x10002");
    assert_eq!(run(&program(&spent), &[vec![]]), [dropped(&p, DropReason::Program(0), "loop.p4:1:1")]);
}

#[test]
fn externs() {
    let p = program(
        r#"
        program externs
        field meta.n: 16 metadata
        field meta.in: 9 metadata
        instance seen register 16 size 4
        block c control {
          n0:
            meta.n = call register.read on seen(0x2:32)
            meta.n = add(meta.n, 0x1:16)
            call register.write on seen(0x2:32, meta.n)
            call assert(ltu(meta.n, 0x3:16)) @externs.p4:9:1
            return
        }
        ingress c
        egress_port meta.n
        intrinsic ingress_port meta.in
        "#,
    );
    let expected = [sent(1, "00"), sent(2, "00"), dropped(&p, DropReason::AssertionFailed, "externs.p4:9:1")];
    assert_eq!(run(&p, &[vec![0], vec![0], vec![0]]), expected);
}

#[test]
fn a_foreign_extern_is_an_error() {
    let p =
        program("program x block c control { n0: call foreign.nothing_such() @x.p4:3:4 return } ingress c");
    assert_eq!(
        p4jet_interp::Machine::new(&p).err().unwrap(),
        "x.p4:3:4: only the program declares the extern `nothing_such`: its behaviour is unknown, so the program cannot run"
    );
}

#[test]
fn exit_and_results_of_apply() {
    let p = program(
        r#"
        program exits
        field meta.key: 8 metadata
        field meta.hit: 1 metadata
        field meta.run: 32 metadata
        field meta.port: 9 metadata
        field h.$valid$: 1 valid h
        field h.f: 8 in h
        field meta.error: 32 metadata
        header h valid h.$valid$ { h.f }
        action leave() { n0: exit }
        action stay() { n0: return }
        table t {
          key h.f: 8 ternary
          action stay
          action leave
          default stay()
          size 4
          entry 2 (0x0&0x0) stay()
          entry 1 (0x10&0xf0) leave()
        }
        block p parser error meta.error { n0: extract h reject 0x5:32 }
        block c control {
          n0:
            apply t(h.f) hit meta.hit run meta.run next n1 exit n2
          n1:
            meta.port = add(concat(zext(meta.hit, 5), meta.run[3:0]), 0x1:9)
            return
          n2:
            meta.port = add(zext(meta.run[7:0], 9), zext(meta.error[7:0], 9))
            return
        }
        errors NoError
        ingress p, c
        egress_port meta.port
        "#,
    );
    // Hit with `stay`: 0b00001_0000 + 1. Hit with `leave`: 1 + the error. Without a deparser the frame does not change.
    assert_eq!(run(&p, &["05", "17"].map(hex)), [sent(17, "05"), sent(6, "17")]);
}
