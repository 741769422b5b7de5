// An action that a control calls before a table lists it: the table's action data has the parameter's name.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<9> b;
    bit<7> c;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    table t {
        key = { hdr.h.a : exact; }
        actions = { forward; }
    }
    apply {
        if (hdr.h.b == 0) {
            forward(hdr.h.b);
        } else {
            t.apply();
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
