// P4_16 "operations on fixed-width signed integers": two's complement, `|+|` and `|-|` saturate at both ends, `>>` repeats the
// sign, comparisons see it.
#include "include/v1.p4"

header data_t {
    int<8> a;
    int<8> b;
    int<8> sum;
    int<8> plus;
    int<8> minus;
    int<8> product;
    int<8> half;
    bit<8> less;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.sum = h.d.a + h.d.b;
        h.d.plus = h.d.a |+| h.d.b;
        h.d.minus = h.d.a |-| h.d.b;
        h.d.product = h.d.a * h.d.b;
        h.d.half = h.d.a >> 1;
        h.d.less = (bit<8>)(bit<1>)(h.d.a < h.d.b);
    }
}

#include "include/main.p4"
