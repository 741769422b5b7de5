// P4_16 "concatenation": the left operand has the high bits; the result is signed if the left operand is.
#include "include/v1.p4"

header data_t {
    bit<4> a;
    bit<12> b;
    int<4> c;
    bit<4> d;
    bit<16> swapped;
    int<16> widened;
    bit<8> three;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.swapped = h.d.b ++ h.d.a;
        h.d.widened = (int<16>)(h.d.c ++ h.d.d);
        h.d.three = 2w1 ++ h.d.d ++ 2w2;
    }
}

#include "include/main.p4"
