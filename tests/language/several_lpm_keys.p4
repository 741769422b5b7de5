// P4_16 "keys" leaves several lpm keys open: the entry with the most prefix bits in all wins, then the oldest.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> v) {
        h.d.r = v;
    }
    table t {
        key = {
            h.d.a : lpm;
            h.d.b : lpm;
        }
        actions = {
            set;
        }
    }

    apply {
        t.apply();
    }
}

#include "include/main.p4"
