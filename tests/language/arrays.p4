// P4_16 "operations on arrays": elements by constant and run-time index, assignment; in headers, structs and arrays.
#include "include/v1.p4"

struct pair_t {
    bit<8> a;
    bit<8> b;
}

header data_t {
    bit<8> i;
    bit<8>[4] v;
    bit<8> sum;
    bit<8> picked;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<8>[4] copy = h.d.v;
        pair_t[2] pairs = { { 1, 2 }, { 3, 4 } };
        bit<8>[2][3] grid = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
        for (bit<8> x in h.d.v) {
            h.d.sum = h.d.sum + x;
        }
        copy[h.d.i] = 0xFF;
        h.d.picked = h.d.v[h.d.i];
        pairs[h.d.i].b = 0x40;
        grid[h.d.i][h.d.i + 1] = 0x50;
        h.d.v = copy;
        h.d.v[3] = pairs[1].b + grid[0][1];
    }
}

#include "include/main.p4"
