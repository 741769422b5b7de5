// P4_16 "conditional operator": only the chosen side is evaluated.
#include "include/v1.p4"

bit<8> twice(in bit<8> value, inout bit<8> calls) {
    calls = calls + 1;
    return value * 2;
}

header data_t {
    bit<8> a;
    bit<8> result;
    bit<8> calls;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.result = h.d.a > 5 ? twice(h.d.a, h.d.calls) : h.d.a == 5 ? 0xEE : 1;
    }
}

#include "include/main.p4"
