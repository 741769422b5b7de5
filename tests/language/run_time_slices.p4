// P4_16 "operations on fixed-width bit types": `x[lo +: width]` with a run-time position, as value and l-value.
#include "include/v1.p4"

header data_t {
    bit<32> v;
    bit<8> lo;
    bit<8> picked;
    bit<32> changed;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.picked = h.d.v[h.d.lo +: 8];
        h.d.changed = h.d.v;
        h.d.changed[h.d.lo +: 4] = 0xF;
        h.d.v[4 +: 4] = 0;
    }
}

#include "include/main.p4"
