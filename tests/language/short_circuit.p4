// P4_16 "expressions on Booleans": `&&` and `||` evaluate their right side only where the left does not decide.
#include "include/v1.p4"

// Counts its calls in `calls`.
bool counted(in bool value, inout bit<8> calls) {
    calls = calls + 1;
    return value;
}

header data_t {
    bit<8> a;
    bit<8> both;
    bit<8> either;
    bit<8> calls;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bool x = h.d.a[0:0] == 1;
        bool y = h.d.a[1:1] == 1;
        h.d.both = (bit<8>)(bit<1>)(counted(x, h.d.calls) && counted(y, h.d.calls));
        h.d.either = (bit<8>)(bit<1>)(x || counted(y, h.d.calls) || counted(!y, h.d.calls));
    }
}

#include "include/main.p4"
