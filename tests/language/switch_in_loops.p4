// P4_16 "for statement" with "switch statement": `break` and `continue` inside a switch belong to the loop around it.
#include "include/v1.p4"

header data_t {
    bit<8> n;
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        for (bit<8> i in 0 .. h.d.n) {
            switch (i) {
                1: { continue; }
                4: { break; }
                default: { h.d.a = h.d.a + i; }
            }
            h.d.b = h.d.b + 1;
        }
    }
}

#include "include/main.p4"
