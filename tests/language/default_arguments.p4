// P4_16 "calling convention" and "optional parameters": defaults stand for missing arguments; `_` takes a result away.
#include "include/v1.p4"

bit<8> scaled(in bit<8> value, in bit<8> factor = 2, in bit<8> add = 1) {
    return value * factor + add;
}

void discard(in bit<8> value, out bit<8> result) {
    result = value;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.a = scaled(3);
        h.d.b = scaled(3, 4);
        h.d.c = scaled(add = 9, value = 2);
        discard(h.d.c, _);
    }
}

#include "include/main.p4"
