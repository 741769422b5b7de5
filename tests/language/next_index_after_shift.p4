// P4_16 "operations on header stacks": `push_front` and `pop_front` move `nextIndex`, and with it `next` and `last`.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t[4] s;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.s.next);
        p.extract(h.s.next);
        h.s.pop_front(1);
        // element 1 again
        p.extract(h.s.next);
        h.s.push_front(2);
        h.s[0] = { (bit<8>)h.s.lastIndex };
        h.s[1] = { h.s.last.v };
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
