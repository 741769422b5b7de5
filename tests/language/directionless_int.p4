// P4_16 "calling convention" and "parameterization": directionless and constructor parameters are known at compile time, so
// they may be `int`s.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> c;
}

#include "include/data.p4"

control Scale(int factor, inout bit<8> v)(int add, int shift) {
    apply {
        v = (bit<8>)(v * factor) + (add * 2 - 1);
        v = v + (1 << shift) + (bit<8>)(add / 2);
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Scale(3, 2) s1;
    apply {
        s1.apply(2, h.d.a);
        s1.apply(5, h.d.c);
    }
}

#include "include/main.p4"
