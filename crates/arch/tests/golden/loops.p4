// Loops with break, continue and return; bounds that are not known are counted.
#include <core.p4>
#include <v1model.p4>

bit<8> sum(in bit<8> n) {
    bit<8> s = 0;
    for (bit<8> i in 8w1 .. n) {
        if (i == 5) {
            continue;
        }
        if (s > 100) {
            return s;
        }
        s = s + i;
    }
    return s;
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
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        for (bit<32> i = 0; i < 10; i = i + 1) {
            if (hdr.h.a == 0) {
                break;
            }
            hdr.h.a = hdr.h.a - 1;
        }
        meta.x = sum(hdr.h.b);
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
