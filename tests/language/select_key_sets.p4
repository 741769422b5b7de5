// P4_16 "select expressions": values, masks, ranges, `_` and `default`, tuples of them; the first case that matches.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    int<8> b;
    bit<8> which;
}

struct headers_t {
    data_t d;
}

enum bit<8> kind_t { special = 0x77 }

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition select(h.d.a, h.d.b) {
            (1, _): one;
            (0x10 &&& 0xF0, 0): two;
            (0x10 &&& 0xF0, -3 .. 3): three;
            (0x40 .. 0x4F, _): four;
            (kind_t.special, 5): five;
            (_, -128): six;
            default: accept;
        }
    }
    state one { h.d.which = 1; transition accept; }
    state two { h.d.which = 2; transition accept; }
    state three { h.d.which = 3; transition accept; }
    state four { h.d.which = 4; transition accept; }
    state five { h.d.which = 5; transition accept; }
    state six { h.d.which = 6; transition accept; }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
