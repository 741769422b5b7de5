// P4_16 "header types" ask for no whole bytes: headers are taken and put back bit by bit; p4jet fills the last byte of the
// output with zeros, and the payload starts at a byte.
#include "include/v1.p4"

header three_t {
    bit<3> v;
}

header five_t {
    bit<2> x;
    bit<3> y;
}

header byte_t {
    bit<8> v;
}

struct headers_t {
    three_t a;
    byte_t b;
    five_t c;
    byte_t d;
    three_t e;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.a);
        p.extract(h.b);
        p.extract(h.c);
        transition select(p.lookahead<bit<4>>()) {
            0xF: more;
            default: accept;
        }
    }
    state more {
        p.extract(h.d);
        p.extract(h.e);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.b.v = h.b.v + 1;
        if (h.a.v == 7) {
            h.a.setInvalid();
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
