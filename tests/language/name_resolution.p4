// P4_16 "name resolution": a leading dot names the global thing that a local one hides.
#include "include/v1.p4"

const bit<8> step = 1;

action bump(inout bit<8> v) {
    v = v + 0x10;
}

header data_t {
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action bump(inout bit<8> v) {
        v = 0;
    }

    apply {
        bit<8> step = 2;
        h.d.a = h.d.a + step;
        h.d.b = h.d.b + .step;
        .bump(h.d.b);
    }
}

#include "include/main.p4"
