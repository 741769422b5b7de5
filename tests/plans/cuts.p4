// The key of the large table ends a stage: what lives across the cut is stored, or restored from the frame.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<16> tag; bit<16> type; }
header ipv4_t { bit<8> ttl; bit<8> protocol; bit<16> id; bit<32> dst; }
struct headers { ethernet_t eth; vlan_t vlan; ipv4_t ip; }
struct metadata { bit<16> tag; bit<8> class; }

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start {
        p.extract(h.eth);
        transition select(h.eth.type) { 0x8100: vlan; 0x800: ip; default: accept; }
    }
    state vlan {
        p.extract(h.vlan);
        transition select(h.vlan.type) { 0x800: ip; default: accept; }
    }
    state ip { p.extract(h.ip); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }

control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action send(bit<9> port, bit<48> mac) { sm.egress_spec = port; h.eth.dst = mac; }
    action discard() { mark_to_drop(sm); }
    table large {
        key = { h.ip.dst: exact; h.ip.id: exact; }
        actions = { send; discard; }
        default_action = discard();
        size = 100000;
    }
    apply {
        m.tag = h.eth.src[15:0] + 1;
        if (h.ip.isValid()) {
            large.apply();
            h.ip.id = m.tag;
            h.ip.ttl = h.ip.ttl - 1;
        }
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;

