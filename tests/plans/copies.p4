// Copies begin with the values that they inherit: all fields of a field list, the packet's own, constants, or 0.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t eth; }
struct metadata {
    @field_list(1) bit<16> kept;
    bit<16> lost;
    bit<8> constant;
}

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.eth); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }

control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        m.kept = h.eth.src[15:0] + 1;
        m.lost = h.eth.src[31:16] + 1;
        m.constant = 7;
        sm.egress_spec = 2;
        if (h.eth.type == 0x88b5) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        }
        if (h.eth.dst[40:40] == 1) {
            sm.mcast_grp = 9;
        }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    apply {
        h.eth.type = m.kept + m.lost + (bit<16>) m.constant;
        if (sm.instance_type == 0 && h.eth.src[0:0] == 1) {
            clone(CloneType.E2E, 6);
        }
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
