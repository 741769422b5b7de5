// P4_16 "sub-parsers": generic ones with constructor parameters, applied several times, with state of their own each time.
#include "include/v1.p4"

header word_t {
    bit<16> v;
}

header byte_t {
    bit<8> v;
}

struct headers_t {
    word_t a;
    byte_t b;
    word_t c;
}

struct meta_t {
    bit<8> calls;
}

parser Optional<H>(packet_in p, out H header_, inout bit<8> calls)(bit<8> tag, bit<8> step) {
    bit<8> mine = 0;
    state start {
        mine = mine + step;
        transition select(p.lookahead<bit<8>>()) {
            tag: found;
            default: done;
        }
    }
    state found {
        p.advance(8);
        p.extract(header_);
        transition done;
    }
    state done {
        calls = calls + mine;
        transition accept;
    }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Optional<word_t>(1, 0x10) word;
    Optional<byte_t>(2, 1) byte;
    state start {
        word.apply(p, h.a, m.calls);
        byte.apply(p, h.b, m.calls);
        word.apply(p, h.c, m.calls);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // the tags come back as the number of calls
        h.b = { m.calls };
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
