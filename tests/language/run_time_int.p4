// P4_16 "operations on arbitrary-precision integers": an `int` made of a run-time value does not overflow on its way back.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    int<8> b;
    bit<8> mean;
    bit<8> both;
    int<16> product;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.mean = (bit<8>)(((int)h.d.a + 255 + 1) >> 1);
        h.d.both = (int)h.d.a + (int)h.d.b > 200 ? 8w1 : 0;
        h.d.product = (int<16>)((int)h.d.a * (int)h.d.b);
    }
}

#include "include/main.p4"
