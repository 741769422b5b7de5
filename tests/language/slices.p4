// P4_16 "operations on fixed-width bit types": slices are values and l-values; only their bits change.
#include "include/v1.p4"

header data_t {
    bit<16> a;
    bit<16> b;
    bit<8> c;
    int<8> d;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.b[11:4] = h.d.a[7:0];
        h.d.b[15:15] = 1;
        h.d.c = h.d.a[15:8][7:4] ++ h.d.b[3:0];
        h.d.d[7:4] = h.d.a[3:0];
        h.d.a[15:8][3:0] = 0xF;
    }
}

#include "include/main.p4"
