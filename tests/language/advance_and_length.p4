// P4_16 "skipping bits": `advance` and `extract` to `_` pass over bits; `length` is that of the whole packet.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t length;
    byte_t v;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        h.length = { (bit<8>)p.length() };
        p.advance((bit<32>)p.lookahead<bit<8>>() * 8);
        p.extract<byte_t>(_);
        p.extract(h.v);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.parser_error != error.NoError) {
            h.v = { 0xEE };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
