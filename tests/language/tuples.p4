// P4_16 "operations on tuple expressions": fields by constant index, as values and l-values; equality.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> r;
    bit<8> same;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        tuple<bit<8>, tuple<bit<16>, bool>> t = { h.d.a, { h.d.b, true } };
        tuple<bit<8>, tuple<bit<16>, bool>> u = t;
        h.d.same = t == u ? 8w1 : 0;
        u[0] = 7;
        u[1][0] = t[1][0] + 1;
        h.d.same = h.d.same + (t == u ? 8w16 : 32);
        h.d.r = t[1][1] ? u[0] : 0;
        h.d.b = u[1][0];
        tuple<> none = {};
        if (none == {}) {
            h.d.same = h.d.same + 1;
        }
    }
}

#include "include/main.p4"
