// P4_16 "parameterization" and "invoking controls": generic controls with constructor parameters; each instance has its own
// tables; direct invocation makes an instance.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> c;
}

#include "include/data.p4"

control Set<T>(inout T value, out bool hit)(T otherwise, bit<8> match) {
    action set(T other) {
        value = other;
    }
    table t {
        key = {
            match : exact @name("match");
        }
        actions = {
            set;
            NoAction;
        }
        default_action = NoAction();
    }
    apply {
        hit = t.apply().hit;
        if (!hit) {
            value = otherwise;
        }
    }
}

control Negate(inout bit<8> v) {
    apply {
        v = ~v;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Set<bit<8>>(1, 5) small;
    Set<bit<16>>(0x100, 6) large;
    bool x;
    bool y;
    apply {
        small.apply(h.d.a, x);
        large.apply(h.d.b, y);
        small.apply(h.d.c, x);
        if (!y) {
            Negate.apply(h.d.a);
        }
    }
}

#include "include/main.p4"
