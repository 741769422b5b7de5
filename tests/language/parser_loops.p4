// P4_16 "parser abstract machine": states may be visited again; variables of the parser live on.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t sum;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> left = 3;
    bit<8> sum = 0;
    state start {
        bit<8> v = p.lookahead<bit<8>>();
        sum = sum + v;
        left = left - 1;
        p.advance(8);
        transition select(left, v) {
            (0, _): done;
            (_, 0): done;
            default: start;
        }
    }
    state done {
        h.sum = { sum };
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
