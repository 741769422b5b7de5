// Sub-controls and sub-parsers: names by instance path, parameters bound to the arguments or copied.
#include <core.p4>
#include <v1model.p4>

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

parser Sub(packet_in packet, out h_t h) {
    state start {
        packet.extract(h);
        transition accept;
    }
}

control Leaf(inout bit<8> v)(bit<8> step) {
    action add(bit<8> n) {
        v = v + n + step;
    }
    table t {
        key = { v : exact; }
        actions = { add; }
        const entries = {
            1: add(step);
        }
    }
    apply {
        t.apply();
    }
}

control Inner(inout headers_t hdr, inout metadata_t m) {
    @name("leaf") Leaf(3) l;
    apply {
        if (hdr.h.a == 0) {
            return;
        }
        l.apply(hdr.h.a);
    }
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Sub() sub;
    state start {
        sub.apply(packet, hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Inner() inner;
    Leaf(4) twice;
    apply {
        inner.apply(hdr, meta);
        twice.apply(meta.x);
        twice.apply(meta.y);
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
