// P4_16 "operations on fixed-width bit types": results wrap modulo 2^W, `+` and `-` alike; `|+|` and `|-|` saturate.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> sum;
    bit<8> difference;
    bit<8> product;
    bit<8> negated;
    bit<8> plus;
    bit<8> minus;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.sum = h.d.a + h.d.b;
        h.d.difference = h.d.a - h.d.b;
        h.d.product = h.d.a * h.d.b;
        h.d.negated = -h.d.a;
        h.d.plus = h.d.a |+| h.d.b;
        h.d.minus = h.d.a |-| h.d.b;
    }
}

#include "include/main.p4"
