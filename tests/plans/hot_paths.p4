// Packets with a tag take one path. Its places are compiled once more, and what holds on the path is known there.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<16> tag; bit<16> type; }
struct headers { ethernet_t eth; vlan_t vlan; }
struct metadata { bit<1> is_tagged; }

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.eth);
        transition select(h.eth.type) { 0x8100: vlan; default: accept; }
    }
    state vlan {
        p.extract(h.vlan);
        m.is_tagged = 1;
        transition accept;
    }
}
control V(inout headers h, inout metadata m) { apply {} }
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }

control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        if (m.is_tagged == 1) {
            h.vlan.tag = h.vlan.tag + 1;
            sm.egress_spec = 1;
        } else {
            h.eth.dst = h.eth.src;
            sm.egress_spec = 2;
        }
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
