// P4_16 "calling convention": the l-value of an `out` argument is fixed before the call; an index in it that the call
// changes does not matter.
#include "include/v1.p4"

header byte_t {
    bit<8> value;
}

void move(inout bit<8> value, inout bit<8> index) {
    index = index + 1;
    value = value + 1;
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
        byte_t[3] s = { { h.d.x }, { h.d.y }, { h.d.z } };
        bit<8> i = h.d.i;
        move(s[i].value, i);
        h.d.x = s[0].value;
        h.d.y = s[1].value;
        h.d.z = s[2].value;
        h.d.i = i;
    }
}

#include "include/main.p4"
