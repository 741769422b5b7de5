//! A switch whose program has one table of every sort.
#![allow(dead_code, reason = "not every test file uses all of it")]

use p4jet_control::Control;
use p4jet_dataplane::Switch;

/// The program, in the IR's text form.
pub const PROGRAM: &str = r#"
program sample
errors NoError, PacketTooShort, HeaderTooShort
error_packet_too_short 1
error_header_too_short 2
drop_reasons "drop"

field hdr.eth.$valid$: 1 valid hdr.eth
field hdr.eth.dst: 48 in hdr.eth
field hdr.eth.src: 48 in hdr.eth
field hdr.eth.type: 16 in hdr.eth
field meta.port: 9 metadata
field meta.in: 9 metadata
field meta.error: 32 metadata
field meta.crc: 16 metadata
field "ingress.forward.dst": 48 data ingress.forward
field "ingress.forward.port": 9 data ingress.forward
field "ingress.out.port": 9 data ingress.out
field "ingress.out_2.port": 9 data ingress.out_2
header hdr.eth valid hdr.eth.$valid$ { hdr.eth.dst, hdr.eth.src, hdr.eth.type }

instance ingress.cells register 16 size 4
instance ingress.wide register 100 size 2
instance ingress.bit register 1 size 65537
instance ingress.seen counter packets_and_bytes size 8
instance ingress.hits direct_counter packets_and_bytes on ingress.l2

action ingress.forward(ingress.forward.dst, ingress.forward.port) { n0: meta.port = ingress.forward.port return }
action ingress.out(ingress.out.port) { n0: meta.port = ingress.out.port return }
action ingress.out_2 as ingress.out(ingress.out_2.port) { n0: meta.crc = 0x1:16 meta.port = ingress.out_2.port return }
action ingress.deny() { n0: drop "drop" }
action NoAction() { n0: return }

table ingress.l2 {
  key hdr.eth.dst: 48 exact
  action ingress.out
  action ingress.deny
  action NoAction defaultonly
  default NoAction()
  size 4
  direct ingress.hits
}
table ingress.ipv4_lpm {
  key hdr.ipv4.dst: 32 lpm
  action ingress.forward
  action ingress.deny
  action NoAction
  default NoAction()
  size 1100000
}
table ingress.acl {
  key hdr.ipv4.src: 32 ternary
  key hdr.tcp.dport: 16 range
  key hdr.ipv4.proto: 8 optional
  key hdr.ipv6.dst: 128 exact
  action ingress.deny
  action ingress.out tableonly
  action NoAction
  default NoAction()
  size 16
}
table ingress.fixed {
  key hdr.eth.type: 16 exact
  action ingress.out
  action NoAction
  default const NoAction()
  size 2
  entry 0 (0x800) ingress.out(0x1)
  const_entries
}
table egress.ipv4_out {
  action ingress.out_2
  action NoAction
  default NoAction()
  size 1
}
table "value_set" {
  key v: 8 exact
  action NoAction
  default NoAction()
  size 1
  hidden
}
block parser parser error meta.error {
  n0: extract hdr.eth
    return
}
block ingress control {
  n0:
    meta.crc = call crc16_custom(hdr.eth.type) text "calc"
    call counter.count on ingress.seen(0x1:32)
    apply ingress.l2(hdr.eth.dst) next n1 exit n1
  n1:
    if eq(meta.port, 0x0:9) then n2 else n3
  n2: drop "drop"
  n3: return
}
block deparser deparser {
  n0: emit hdr.eth
    return
}
ingress parser, ingress
egress deparser
egress_port meta.port
intrinsic ingress_port meta.in
"#;

/// Control of a fresh switch with that program.
pub fn control() -> Control {
    let program = p4jet_ir::text::parse(PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    Control::new(Switch::new(program).unwrap())
}

/// Carries out lines and gives all that they print; errors are marked.
pub fn session(control: &mut Control, lines: &str) -> String {
    let mut out = String::new();
    for line in lines.lines() {
        match control.execute(line.trim()) {
            Ok(text) => out += &text,
            Err(error) => out += &format!("! {error}\n"),
        }
    }
    out
}
