// P4_16 "type nesting rules": a header may have several varbit fields; `extract` fills one, assignments the others.
#include "include/v1.p4"

header one_t {
    bit<8> length;
    varbit<32> v;
}

header two_t {
    varbit<32> x;
    bit<8> between;
    varbit<32> y;
}

struct headers_t {
    one_t a;
    one_t b;
    two_t both;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.a, (bit<32>)p.lookahead<bit<8>>() * 8);
        p.extract(h.b, (bit<32>)p.lookahead<bit<8>>() * 8);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.both.setValid();
        h.both.x = h.b.v;
        h.both.between = 0xFF;
        h.both.y = h.a.v;
        h.a.setInvalid();
        h.b.setInvalid();
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
