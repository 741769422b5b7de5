// P4_16 "exit statement": `exit` ends all blocks around it, after `out` and `inout` arguments were copied back.
#include "include/v1.p4"

control Inner(in bit<8> a, inout bit<8> r) {
    action leave(inout bit<8> x) {
        x = 0x11;
        if (a == 1) {
            exit;
        }
        x = 0x22;
    }
    apply {
        leave(r);
        r = r + 0x11;
    }
}

header data_t {
    bit<8> a;
    bit<8> r;
    bit<8> later;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Inner() inner;

    apply {
        inner.apply(h.d.a, h.d.r);
        h.d.later = 1;
    }
}

#include "include/main.p4"
