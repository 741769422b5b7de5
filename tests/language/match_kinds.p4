// P4_16 "keys": exact, lpm, ternary, range and optional keys together; the entry with the highest priority wins.
#include "include/v1.p4"

header data_t {
    bit<8> e;
    bit<8> l;
    bit<8> t;
    bit<8> r;
    bit<8> o;
    bit<8> v;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> v) {
        h.d.v = v;
    }
    table t {
        key = {
            h.d.e : exact;
            h.d.l : lpm;
            h.d.t : ternary;
            h.d.r : range;
            h.d.o : optional;
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
