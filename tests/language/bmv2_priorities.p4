// P4_16 "entries" with bmv2's `@priority`: the smaller number wins; entries without have their position.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> v) {
        h.d.r = v;
    }
    table t {
        key = {
            h.d.a : ternary;
        }
        actions = {
            set;
        }
        const default_action = set(0);
        const entries = {
            0x10 &&& 0xF0 : set(1);
            0x11 : set(2) @priority(10);
            0x12 : set(3) @priority(3);
            0x13 : set(4) @priority(0);
        }
    }
    apply {
        t.apply();
    }
}

#include "include/main.p4"
