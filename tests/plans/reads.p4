// A field that no statement has set is read from the frame: where its header always lies at one place, by its bit; where it does not,
// relative to the header.
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
    apply {
        sm.egress_spec = (bit<9>) h.eth.type[8:0];
        if (h.ip.isValid()) {
            if (h.ip.protocol == 6) {
                m.class = 1;
            }
            h.ip.ttl = h.ip.ttl - 1;
            if (m.class == 1) {
                h.ip.id = (bit<16>) h.ip.ttl;
            }
        }
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;

