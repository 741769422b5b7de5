// P4_16 "variables": initialised each time; inner ones hide outer ones; p4jet's undefined value is 0.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

#include "include/data.p4"

const bit<8> x = 1;

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> y = h.d.a;
    action bump() {
        y = y + 1;
    }
    apply {
        bit<8> x = x + 1;
        {
            bit<8> x = 5;
            h.d.b = x;
        }
        bump();
        h.d.b = h.d.b + x + y;
        for (bit<8> i in 0 .. 2) {
            bit<8> z;
            z = z + 1;
            h.d.c = h.d.c + z;
        }
    }
}

#include "include/main.p4"
