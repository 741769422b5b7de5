// P4_16 "operations on variable-size bit types": extracted with a length, assigned with it, compared, emitted.
#include "include/v1.p4"

header v_t {
    bit<8> length;
    varbit<64> v;
}

header flags_t {
    bit<8> v;
}

struct headers_t {
    v_t a;
    v_t b;
    flags_t flags;
}

struct meta_t {
    varbit<64> kept;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.a, (bit<32>)p.lookahead<bit<8>>() * 8);
        p.extract(h.b, (bit<32>)p.lookahead<bit<8>>() * 8);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.flags = { 0 };
        h.flags.v[0:0] = (bit<1>)(h.a.v == h.b.v);
        h.flags.v[1:1] = (bit<1>)(h.a == h.b);
        m.kept = h.a.v;
        h.a.v = h.b.v;
        h.b.v = m.kept;
        bit<8> l = h.a.length;
        h.a.length = h.b.length;
        h.b.length = l;
        if (s.parser_error == error.HeaderTooShort) {
            h.flags.v = 0xEE;
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
