// P4_16 "deparsing": a deparser is a control, which may have tables and actions.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t a;
    byte_t b;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.a);
        p.extract(h.b);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    bit<8> order = 0;
    action set(bit<8> v) {
        order = v;
    }
    table t {
        key = {
            h.a.v : exact;
        }
        actions = {
            set;
            NoAction;
        }
        default_action = NoAction;
    }
    apply {
        if (t.apply().hit && order == 1) {
            p.emit(h.b);
            p.emit(h.a);
        } else {
            p.emit(h.a);
            p.emit(h.b);
        }
    }
}

#include "include/main.p4"
