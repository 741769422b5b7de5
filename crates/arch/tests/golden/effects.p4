// Order of evaluation: short circuits around calls, snapshots of what stands left of an effect.
#include <core.p4>
#include <v1model.p4>

bit<8> bump(inout bit<8> v) {
    v = v + 1;
    return v;
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
    bit<8> y;
    bool c;
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
        meta.y = meta.x + bump(meta.x) + meta.x;
        meta.c = meta.x == 0 || bump(meta.x) == 3;
        meta.y = meta.c ? bump(meta.x) : 8w5;
        hdr.h = { hdr.h.b, hdr.h.a };
        hdr.h.a[3:0] = hdr.h.b[7:4];
        int<8> s = (int<8>) hdr.h.a;
        if (s < -1 && (int<16>) s >>2 != 0) {
            meta.x = (bit<8>) (s |+| 100);
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
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
