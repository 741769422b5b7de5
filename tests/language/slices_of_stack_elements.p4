// P4_16 "operations on fixed-width bit types": slices of expressions, of headers in stacks by run-time index, and as `out`
// arguments.
#include "include/v1.p4"

header data_t {
    bit<8> i;
    bit<16> x;
    bit<16> y;
    bit<8> r;
}

header word_t {
    bit<16> v;
}

#include "include/data.p4"

void put(out bit<4> to, in bit<4> v) {
    to = v;
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        word_t[2] w = { { h.d.x }, { h.d.y } };
        w[h.d.i].v[11:8] = 0xF;
        put(w[h.d.i].v[3:0], 0xA);
        h.d.r = (w[0].v + w[1].v)[7:0];
        h.d.x = w[0].v;
        h.d.y = w[1].v;
    }
}

#include "include/main.p4"
