// P4_16 "match-action unit execution semantics": key expressions are evaluated in order, each before the next changes
// anything, and even where the table has no entry.
#include "include/v1.p4"

bit<8> half(in bit<8> x, inout bit<8> y) {
    y = y + 1;
    return x >> 1;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set() {
        h.d.r = 1;
    }
    table t {
        key = {
            h.d.b : exact @name("before");
            half(h.d.a, h.d.b) : exact @name("call");
            h.d.b : exact @name("after");
        }
        actions = {
            set;
            NoAction;
        }
        default_action = NoAction;
    }

    apply {
        t.apply();
    }
}

#include "include/main.p4"
