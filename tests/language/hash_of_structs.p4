// P4_16 "operations on structure-valued expressions": a struct or list given to `hash` is the bits of its fields in order.
#include "include/v1.p4"

struct pair_t {
    bit<8> a;
    bit<16> b;
}

struct parts_t {
    pair_t pair;
    tuple<bit<8>> rest;
}

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> c;
    bit<8> same;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<16> x;
        bit<16> y;
        bit<16> z;
        hash(x, HashAlgorithm.crc16, 16w0, { h.d.a, h.d.b, h.d.c }, 32w65536);
        parts_t p = { { h.d.a, h.d.b }, { h.d.c } };
        hash(y, HashAlgorithm.crc16, 16w0, p, 32w65536);
        hash(z, HashAlgorithm.crc16, 16w0, { p.pair, h.d.c }, 32w65536);
        h.d.same = x == y && y == z ? 8w1 : 0;
        // the CRC of a zero byte is 0
        hash(x, HashAlgorithm.crc16, 16w5, { h.d.a - h.d.a }, 32w65536);
        h.d.b = x;
    }
}

#include "include/main.p4"
