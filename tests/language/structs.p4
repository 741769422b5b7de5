// P4_16 "operations on struct types": assigned, compared and swapped as values, with structs inside.
#include "include/v1.p4"

struct pair_t {
    bit<8> a;
    bit<8> b;
}

struct outer_t {
    pair_t both;
    bit<8> c;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> same;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        outer_t x = { { h.d.a, h.d.b }, h.d.c };
        outer_t y = x;
        h.d.same = (bit<8>)(bit<1>)(x == y);
        y.both.b = y.both.b + 1;
        h.d.same[1:1] = (bit<1>)(x != y);
        // at once, as if the right side were complete before anything is written
        x.both = { b = x.both.a, a = x.both.b };
        x = x;
        h.d.a = x.both.a;
        h.d.b = x.both.b;
        h.d.c = y.both.b;
        y = { both = x.both, c = 9 };
        h.d.same[7:4] = y.both.a[3:0];
    }
}

#include "include/main.p4"
