// P4_16 "compile-time size determination": sizes of headers, structs, stacks, unions and varbits, at their least and most.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
    bit<8> e;
}

header var_t {
    bit<16> f;
    varbit<64> v;
}

header_union either_t {
    data_t d;
    var_t v;
}

struct both_t {
    data_t d;
    var_t[2] s;
    bool flag;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    apply {
        var_t v;
        either_t u;
        both_t s;
        h.d.a = (bit<8>)h.d.minSizeInBytes();
        h.d.b = (bit<8>)v.minSizeInBits() + (bit<8>)v.maxSizeInBytes();
        h.d.c = (bit<8>)u.maxSizeInBits();
        h.d.d = (bit<8>)s.minSizeInBits();
        h.d.e = (bit<8>)s.maxSizeInBytes();
    }
}

#include "include/main.p4"
