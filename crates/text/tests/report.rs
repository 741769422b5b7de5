//! The reports of packet tests that fail: each `report/NAME.stf` gives the text of `report/NAME.txt`. `UPDATE=1` rewrites it.

use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Switch};
use p4jet_text::stf::{parse, run_traced};
use std::path::Path;

/// Ethernet, up to two tags, a header with options and fields that are not of whole bytes. Entries of `fwd` send the
/// packet on; `push` puts a tag in front, `pop` takes one off, `age` counts the hops down.
const PROGRAM: &str = r#"
program sample
errors NoError, PacketTooShort, HeaderTooShort
error_packet_too_short 1
error_header_too_short 2
drop_reasons "marked to drop"

field hdr.eth.$valid$: 1 valid hdr.eth
field hdr.eth.dst: 48 in hdr.eth
field hdr.eth.src: 48 in hdr.eth
field hdr.eth.type: 16 in hdr.eth
field "hdr.tag[0].$valid$": 1 valid "hdr.tag[0]"
field "hdr.tag[0].pcp": 3 in "hdr.tag[0]"
field "hdr.tag[0].dei": 1 in "hdr.tag[0]"
field "hdr.tag[0].vid": 12 in "hdr.tag[0]"
field "hdr.tag[0].type": 16 in "hdr.tag[0]"
field "hdr.tag[1].$valid$": 1 valid "hdr.tag[1]"
field "hdr.tag[1].pcp": 3 in "hdr.tag[1]"
field "hdr.tag[1].dei": 1 in "hdr.tag[1]"
field "hdr.tag[1].vid": 12 in "hdr.tag[1]"
field "hdr.tag[1].type": 16 in "hdr.tag[1]"
field hdr.ip.$valid$: 1 valid hdr.ip
field hdr.ip.version: 4 in hdr.ip
field hdr.ip.ihl: 4 in hdr.ip
field hdr.ip.ttl: 8 in hdr.ip
field hdr.ip.dst: 32 in hdr.ip
field hdr.ip.options: 120 in hdr.ip
field hdr.ip.options.len: 32 temp
field look: 8 temp
field meta.port: 9 metadata
field meta.in: 9 metadata
field meta.error: 32 metadata
field "ingress.send.port": 9 data ingress.send
field "ingress.push.port": 9 data ingress.push
field "ingress.push.vid": 12 data ingress.push
field "ingress.pop.port": 9 data ingress.pop
field "ingress.age.port": 9 data ingress.age
header hdr.eth valid hdr.eth.$valid$ { hdr.eth.dst, hdr.eth.src, hdr.eth.type }
header "hdr.tag[0]" valid "hdr.tag[0].$valid$" { "hdr.tag[0].pcp", "hdr.tag[0].dei", "hdr.tag[0].vid", "hdr.tag[0].type" }
header "hdr.tag[1]" valid "hdr.tag[1].$valid$" { "hdr.tag[1].pcp", "hdr.tag[1].dei", "hdr.tag[1].vid", "hdr.tag[1].type" }
header hdr.ip valid hdr.ip.$valid$ { hdr.ip.version, hdr.ip.ihl, hdr.ip.ttl, hdr.ip.dst, hdr.ip.options varbit hdr.ip.options.len }

action ingress.send(ingress.send.port) { n0: meta.port = ingress.send.port return }
action ingress.push(ingress.push.port, ingress.push.vid) {
  n0:
    meta.port = ingress.push.port
    "hdr.tag[0].$valid$" = 0x1:1
    "hdr.tag[0].vid" = ingress.push.vid
    "hdr.tag[0].type" = hdr.eth.type
    hdr.eth.type = 0x8100:16
    return
}
action ingress.pop(ingress.pop.port) {
  n0:
    meta.port = ingress.pop.port
    hdr.eth.type = "hdr.tag[0].type"
    "hdr.tag[0].$valid$" = 0x0:1
    return
}
action ingress.age(ingress.age.port) {
  n0:
    meta.port = ingress.age.port
    hdr.ip.ttl = sub(hdr.ip.ttl, 0x1:8)
    return
}
action ingress.deny() { n0: drop "marked to drop" }

table ingress.fwd {
  key hdr.eth.dst: 48 exact
  action ingress.send
  action ingress.push
  action ingress.pop
  action ingress.age
  action ingress.deny
  default ingress.deny()
  size 16
}
block parser parser error meta.error {
  n0:
    extract hdr.eth
    switch hdr.eth.type { 0x8100: n1, 0x800: n3 } else n4
  n1:
    extract "hdr.tag[0]"
    switch "hdr.tag[0].type" { 0x8100: n2, 0x800: n3 } else n4
  n2:
    extract "hdr.tag[1]"
    switch "hdr.tag[1].type" { 0x800: n3 } else n4
  n3:
    lookahead look
    extract hdr.ip varbit shl(zext(look[3:0], 32), 0x3:8)
    return
  n4: return
}
block ingress control {
  n0: apply ingress.fwd(hdr.eth.dst) next n1 exit n1
  n1: return
}
block deparser deparser {
  n0:
    emit hdr.eth
    emit "hdr.tag[0]"
    emit "hdr.tag[1]"
    emit hdr.ip
    return
}
ingress parser, ingress
egress deparser
egress_port meta.port
intrinsic ingress_port meta.in
"#;

fn report(script: &str) -> String {
    let program = p4jet_ir::text::parse(PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    let fresh = || Switch::new(program.clone()).map(Control::new).map_err(String::from);
    let script = parse(script).unwrap_or_else(|e| panic!("{}", e[0].render("test.stf")));
    let mut texts = [EngineKind::Jit, EngineKind::Interp].map(|engine| {
        let control = fresh().unwrap();
        let mut worker = control.switch().worker(engine, 0).unwrap();
        let outcome = run_traced(&script, &control, &mut worker, &fresh);
        format!("{}\n{}", outcome.report("test"), outcome.details())
    });
    assert_eq!(texts[0], texts[1]);
    // The traces have tests of their own; here it matters that they are there, and of which packets.
    let mut skipping = false;
    let kept = |line: &&str| {
        if !line.starts_with("    ") {
            skipping = false;
        }
        let keep = !skipping;
        skipping |= line.starts_with("  trace of the packet");
        keep
    };
    std::mem::take(&mut texts[0]).lines().filter(kept).map(|line| format!("{line}\n")).collect()
}

#[test]
fn reports() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report");
    let mut scripts: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|e| e == "stf"));
    scripts.sort();
    assert!(scripts.len() > 8);
    let mut wrong = Vec::new();
    for script in scripts {
        let text = report(&std::fs::read_to_string(&script).unwrap());
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
        let golden = script.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&golden, &text).unwrap();
        } else if std::fs::read_to_string(&golden).ok().as_ref() != Some(&text) {
            wrong.push(format!("{}\n{text}", script.display()));
        }
    }
    assert!(wrong.is_empty(), "not as in the golden file (UPDATE=1 writes it):\n{}", wrong.join("\n"));
}
