// P4_16 "calling convention": arguments are evaluated from left to right as they stand in the call, named ones too; each
// keeps its value.
#include "include/v1.p4"

bit<8> next(inout bit<8> value) {
    value = value + 1;
    return value;
}

void store(in bit<8> first, in bit<8> second, in bit<8> third,
           out bit<8> to1, out bit<8> to2, out bit<8> to3) {
    to1 = first;
    to2 = second;
    to3 = third;
}

header data_t {
    bit<8> a;
    bit<8> x;
    bit<8> y;
    bit<8> z;
    bit<8> named_x;
    bit<8> named_y;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<8> n = h.d.a;
        store(n, next(n), next(n), h.d.x, h.d.y, h.d.z);
        bit<8> unused;
        store(third = next(n), second = 0, first = next(n), to1 = h.d.named_x, to2 = unused, to3 = h.d.named_y);
    }
}

#include "include/main.p4"
