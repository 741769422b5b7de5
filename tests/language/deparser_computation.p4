// P4_16 "deparsing": a deparser is a control: variables, conditions, functions, assignments to copies of its headers,
// loops.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

header count_t {
    bit<8> headers;
    bit<8> sum;
}

struct headers_t {
    byte_t[4] s;
}

struct meta_t {}

bit<8> plus(in bit<8> a, in bit<8> b) {
    return a + b;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.s.next);
        transition select(h.s.last.v) {
            0: accept;
            default: start;
        }
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        count_t c = { 0, 0 };
        for (byte_t b in h.s) {
            if (b.isValid()) {
                c.headers = c.headers + 1;
                c.sum = plus(c.sum, b.v);
            }
        }
        p.emit(c);
        byte_t first = h.s[0];
        first.v = ~first.v;
        if (c.sum != 0) {
            p.emit(first);
        }
        p.emit(h.s[2]);
        p.emit(h.s[1]);
    }
}

#include "include/main.p4"
