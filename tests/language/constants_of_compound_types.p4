// P4_16 "constants": of structs, headers, tuples and lists too.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> c;
}

#include "include/data.p4"

struct limits_t {
    bit<16> low;
    bit<8> high;
}

const data_t FIRST = { 10, 0x100, 3 };
const limits_t LIMITS = { low = 0x105, high = 0x00 };
const tuple<bit<16>, bool> PAIR = { 5, true };

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d = FIRST;
        h.d.c = LIMITS.high - LIMITS.low[7:0];
        if (PAIR[1]) {
            h.d.b = h.d.b + PAIR[0];
        }
    }
}

#include "include/main.p4"
