// P4_16 "explicit casts": to a wider type with the sign of the source, to a narrower one without its high bits.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    int<8> b;
    bit<16> zeros;
    int<16> signs;
    bit<4> low;
    bit<4> rest;
    bit<8> same;
    bit<8> truth;
    bit<16> both;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.zeros = (bit<16>)h.d.a;
        h.d.signs = (int<16>)h.d.b;
        h.d.low = (bit<4>)h.d.a;
        h.d.rest = (bit<4>)(bit<1>)((bool)h.d.a[0:0]);
        h.d.same = (bit<8>)h.d.b;
        h.d.truth = (bit<8>)(bit<1>)(h.d.a == 0x85);
        h.d.both = (bit<16>)(int<16>)h.d.b;
    }
}

#include "include/main.p4"
