// P4_16 "operations on fixed-width bit types" and "… signed integers": comparisons read the sign only where the type has
// one.
#include "include/v1.p4"

header data_t {
    bit<4> a;
    bit<4> b;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        int<4> x = (int<4>)h.d.a;
        int<4> y = (int<4>)h.d.b;
        h.d.r = 0;
        h.d.r[7:7] = (bit<1>)(h.d.a < h.d.b);
        h.d.r[6:6] = (bit<1>)(h.d.a <= h.d.b);
        h.d.r[5:5] = (bit<1>)(h.d.a > h.d.b);
        h.d.r[4:4] = (bit<1>)(h.d.a >= h.d.b);
        h.d.r[3:3] = (bit<1>)(x < y);
        h.d.r[2:2] = (bit<1>)(x <= y);
        h.d.r[1:1] = (bit<1>)(x > y);
        h.d.r[0:0] = (bit<1>)(x >= y);
    }
}

#include "include/main.p4"
