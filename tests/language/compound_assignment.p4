// P4_16 "assignment statement": `op=` evaluates the place once, before the right side.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

bit<8> next(inout bit<8> v) {
    v = v + 1;
    return v;
}

header data_t {
    bit<8> i;
    bit<8> x;
    bit<8> y;
    bit<8> z;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    apply {
        byte_t[2] s = { { h.d.x }, { h.d.y } };
        s[next(h.d.i)].v += h.d.i;
        h.d.x = s[0].v;
        h.d.y = s[1].v;
        h.d.z |+|= 0xF0;
        h.d.z <<= 1;
        h.d.z[3:0] |= 5;
    }
}

#include "include/main.p4"
