// P4_16 "return statement": a function ends where it returns, inside loops and switches too.
#include "include/v1.p4"

bit<8> find(in bit<8> value) {
    for (bit<8> i in 1 .. 5) {
        if (i == value) {
            return i * 16;
        }
    }
    switch (value) {
        9: { return 0x99; }
        8: {}
    }
    return 0;
}

header data_t {
    bit<8> a;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.r = find(h.d.a);
        if (h.d.r == 0) {
            return;
        }
        h.d.a = 0xFF;
    }
}

#include "include/main.p4"
