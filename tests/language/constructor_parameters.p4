// P4_16 "parameterization": objects may be given objects: a control gets a register and another control from outside.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

control Step(inout bit<8> v)(bit<8> by) {
    apply {
        v = v + by;
    }
}

control Twice(inout bit<8> v)(register<bit<8>> seen, bit<32> cell) {
    Step(cell[7:0] + 1) first;
    Step(5) second;
    apply {
        bit<8> old;
        seen.read(old, cell);
        first.apply(v);
        second.apply(v);
        v = v + old;
        seen.write(cell, v);
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<8>>(4) shared;
    Twice(shared, 1) x;
    Twice(shared, 2) y;
    Twice(seen = shared, cell = 1) z;
    apply {
        x.apply(h.d.a);
        y.apply(h.d.b);
        z.apply(h.d.a);
    }
}

#include "include/main.p4"
