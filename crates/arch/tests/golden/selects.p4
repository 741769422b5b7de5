// Select: switches, chains with masks and ranges, value sets, verify, states that come back without extracting.
#include <core.p4>
#include <v1model.p4>

struct pair_t {
    bit<8> a;
    @match(ternary)
    bit<8> b;
}

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<8> x;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    value_set<pair_t>(4) pairs;
    value_set<bit<8>>(4) ones;
    state start {
        packet.extract(hdr.h);
        verify(hdr.h.a != 9, error.ParserInvalidArgument);
        transition select(hdr.h.a, hdr.h.b) {
            (1, 2): spin;
            (3, 4): accept;
            (1, 2): reject;
        }
    }
    state spin {
        meta.x = meta.x + 1;
        transition select(hdr.h.a, meta.x) {
            pairs: accept;
            (0x10 &&& 0xf0, 5): spin;
            (3 .. 5, ones): skip;
            (_, 7): reject;
            default: spin;
        }
    }
    state skip {
        packet.advance(8 * (bit<32>) meta.x);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
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
