// P4_16 "a note about shifts": a count of W or more gives 0, or all signs for a signed value; the count may be wider than
// the value.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    int<8> b;
    bit<16> count;
    bit<8> left;
    bit<8> right;
    int<8> signed_left;
    int<8> signed_right;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.left = h.d.a << h.d.count;
        h.d.right = h.d.a >> h.d.count;
        h.d.signed_left = h.d.b << h.d.count;
        h.d.signed_right = h.d.b >> h.d.count;
    }
}

#include "include/main.p4"
