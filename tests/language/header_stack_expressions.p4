// P4_16 "header stack expressions": stacks written down, with `{#}` and `...`; `nextIndex` does not take part in equality.
#include "include/v1.p4"

header pair_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    pair_t[3] s;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        pair_t[3] x = { { 1, 2 }, (pair_t){#}, { b = 5, a = 6 } };
        pair_t[3] y = (pair_t[3]){ { h.s[0].a, h.s[0].b }, ... };
        if (h.s == y) {
            h.s = x;
        }
        if (h.s[2] == { 6, 5 }) {
            h.s[1] = { 0xEE, 0xEE };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
