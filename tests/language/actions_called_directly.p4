// P4_16 "invoking actions": an action is called like a function, with directions; one action calls another.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

#include "include/data.p4"

action add(inout bit<8> x, in bit<8> y, out bit<8> old) {
    old = x;
    x = x + y;
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> seen = 1;
    action twice(inout bit<8> x, bit<8> y) {
        bit<8> old;
        add(x, y, old);
        add(x, y, h.d.c);
        seen = seen + old;
    }
    table t {
        actions = {
            twice(h.d.b);
        }
        default_action = twice(h.d.b, 3);
    }
    apply {
        twice(h.d.a, h.d.b);
        t.apply();
        h.d.a = h.d.a + seen;
    }
}

#include "include/main.p4"
