// Header unions: extracting or validating one member invalidates the others.
#include <core.p4>
#include <v1model.p4>

header a_t {
    bit<8> x;
}

header b_t {
    bit<16> y;
}

header_union u_t {
    a_t a;
    b_t b;
}

struct headers_t {
    u_t u;
    u_t w;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            1: one;
            default: two;
        }
    }
    state one {
        packet.extract(hdr.u.a);
        transition accept;
    }
    state two {
        packet.extract(hdr.u.b);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (hdr.u.isValid() && hdr.u != hdr.w) {
            hdr.u.b = { 7 };
        }
        hdr.w.a.setValid();
        hdr.w = hdr.u;
        hdr.u.a = hdr.w.a;
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
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
