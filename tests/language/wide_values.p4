// P4_16 "integers": p4jet knows widths to 2048 bits, and all operators at all of them.
#include "include/v1.p4"

header data_t {
    bit<2048> a;
    bit<2048> b;
    bit<2048> sum;
    bit<2048> product;
    bit<2048> shifted;
    bit<2048> mixed;
    bit<8> flags;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.sum = h.d.a + h.d.b;
        h.d.product = h.d.a * h.d.b;
        h.d.shifted = (bit<2048>)((int<2048>)h.d.a >> 1029);
        h.d.mixed = (h.d.a & ~h.d.b) ^ (h.d.a[1023:0] ++ h.d.b[2047:1024]);
        h.d.mixed[1100:1001] = h.d.a[99:0];
        h.d.flags = 0;
        h.d.flags[0:0] = (bit<1>)(h.d.a < h.d.b);
        h.d.flags[1:1] = (bit<1>)((int<2048>)h.d.a < (int<2048>)h.d.b);
        h.d.flags[2:2] = (bit<1>)(h.d.a |+| h.d.b == ~(bit<2048>)0);
        h.d.flags[3:3] = (bit<1>)(h.d.a - h.d.b + h.d.b == h.d.a);
    }
}

#include "include/main.p4"
