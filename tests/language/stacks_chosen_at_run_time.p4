// P4_16 "operations on arrays": an array of structs with header stacks; `next`, `last` and the shifts work on the chosen
// one.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct lane_t {
    byte_t[2] s;
}

struct headers_t {
    byte_t which;
    lane_t[2] lanes;
}

struct meta_t {
    bit<8> last;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.which);
        transition select(p.lookahead<bit<8>>()) {
            0xFF: accept;
            default: element;
        }
    }
    state element {
        p.extract(h.lanes[h.which.v].s.next);
        m.last = h.lanes[h.which.v].s.last.v;
        transition start;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.lanes[h.which.v].s.push_front(1);
        h.lanes[h.which.v].s[0] = { m.last };
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.lanes[0]);
        p.emit(h.lanes[1]);
    }
}

#include "include/main.p4"
