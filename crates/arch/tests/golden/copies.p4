// Copy-in and copy-out: aliases get copies, disjoint arguments of functions do not; `exit` copies out too.
#include <core.p4>
#include <v1model.p4>

bit<8> twice(in bit<8> v) {
    return v + v;
}

void swap(inout bit<8> l, inout bit<8> r) {
    bit<8> t = l;
    l = r;
    r = t;
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
    action a(inout bit<8> v, in bit<8> w) {
        v = w;
        meta.x = 1;
        if (w == 3) {
            exit;
        }
        v = v + meta.x;
    }
    apply {
        swap(hdr.h.a, hdr.h.b);
        swap(meta.x, meta.x);
        meta.y = twice(meta.x) + twice(twice(meta.y));
        a(meta.x, meta.y);
        meta.x = 2;
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
