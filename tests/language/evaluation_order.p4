// P4_16 "expression evaluation order": operands from left to right, each keeping the value it had when its turn came.
#include "include/v1.p4"

bit<8> next(inout bit<8> value) {
    value = value + 1;
    return value;
}

header data_t {
    bit<8> a;
    bit<8> sum;
    bit<8> difference;
    bit<8> pair;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // 1 + 2 * 16
        h.d.sum = h.d.a + next(h.d.a) * 16;
        // 3 - 3: the call comes first
        h.d.difference = next(h.d.a) - h.d.a;
        bit<8> b = 1;
        h.d.pair = ((bit<4>)next(b)) ++ ((bit<4>)next(b));
    }
}

#include "include/main.p4"
