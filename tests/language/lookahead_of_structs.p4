// P4_16 "lookahead": bits of any type of fixed width, without moving on; too few are `error.PacketTooShort`.
#include "include/v1.p4"

header pair_t {
    bit<8> a;
    bit<8> b;
}

struct view_t {
    bit<4> high;
    int<12> low;
    pair_t inner;
    bool flag;
    bit<7> rest;
}

header out_t {
    bit<8> high;
    int<16> low;
    bit<8> a;
    bit<8> flags;
}

struct headers_t {
    out_t o;
    pair_t[2] s;
}

struct meta_t {
    pair_t[2] seen;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        view_t v = p.lookahead<view_t>();
        h.o = { (bit<8>)v.high, (int<16>)v.low, v.inner.a, v.flag ? 8w0x80 : 0 };
        h.o.flags[0:0] = (bit<1>)v.inner.isValid();
        pair_t t = p.lookahead<pair_t>();
        h.o.flags[1:1] = (bit<1>)(t.a == p.lookahead<bit<8>>());
        tuple<bit<8>, bit<8>> u = p.lookahead<tuple<bit<8>, bit<8>>>();
        h.o.flags[2:2] = (bit<1>)(t.b == u[1]);
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.parser_error == error.PacketTooShort) {
            h.o = { 0xEE, 0, 0, 0 };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
