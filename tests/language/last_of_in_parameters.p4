// P4_16 "operations on header stacks": `last` and `lastIndex` of a stack that a sub-parser was given as `in`.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t[3] s;
    byte_t seen;
}

struct meta_t {}

parser Look(in byte_t[3] s, out bit<8> seen) {
    state start {
        seen = s.last.v + (bit<8>)s.lastIndex;
        transition accept;
    }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> seen;
    Look() look;
    state start {
        p.extract(h.s.next);
        p.extract(h.s.next);
        look.apply(h.s, seen);
        h.seen = { seen };
        transition accept;
    }
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
