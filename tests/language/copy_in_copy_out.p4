// P4_16 "calling convention": arguments are copied in, and copied out from left to right, so that parameters are never one
// another.
#include "include/v1.p4"

bit<8> both(inout bit<8> x, inout bit<8> y) {
    x = x + 1;
    y = y + 10;
    return x + y;
}

void replace(out bit<8> x, in bit<8> y) {
    x = 100;
    x = y + 1;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // x = 10, y = 10; both are copied back to a, y last
        h.d.c = both(h.d.a, h.d.a);
        // the old value of b is the argument, whatever `out` does to it meanwhile
        replace(h.d.b, h.d.b);
        // `inout` inside `in`'s expression
        h.d.d = both(h.d.d, h.d.c);
    }
}

#include "include/main.p4"
