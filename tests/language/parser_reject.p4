// P4_16 "transition statements" and "select expressions": `reject` ends parsing with `error.NoError`, a select without match
// with `error.NoMatch`; in v1model the packet continues, with what was extracted.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t a;
    byte_t b;
    byte_t status;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    @noWarn("incomplete-select")
    state start {
        p.extract(h.a);
        transition select(h.a.v) {
            0: accept;
            1: reject;
            2: next;
        }
    }
    state next {
        p.extract(h.b);
        transition reject;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.status = { 0 };
        if (s.parser_error == error.NoMatch) {
            h.status.v = 1;
        } else if (s.parser_error == error.PacketTooShort) {
            h.status.v = 2;
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
