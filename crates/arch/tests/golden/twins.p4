// Actions of one control-plane name: the same code with the same names of parameters is one action. Others of one name are an error: refused_tables.p4.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
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
    @name(".nop") action nop() {}
    @name(".put") action put(bit<8> v) {
        hdr.h.a = v;
    }
    action set(inout bit<8> where, bit<8> v) {
        where = v;
    }
    table one {
        key = { hdr.h.a : exact; }
        actions = { nop; put; set(hdr.h.a); }
    }
    table two {
        key = { hdr.h.a : exact; }
        actions = { set(hdr.h.b); }
    }
    apply {
        one.apply();
        two.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".nop") action nop() {}
    @name(".put") action put(bit<8> v) {
        hdr.h.a = v;
    }
    @name(".put_more") action put_other(@name("other") bit<8> v) {
        hdr.h.a = v;
    }
    table one {
        key = { hdr.h.a : exact; }
        actions = { put; nop; }
    }
    table two {
        key = { hdr.h.a : exact; }
        actions = { put_other; }
    }
    apply {
        one.apply();
        two.apply();
    }
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
