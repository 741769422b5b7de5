// P4_16 "operations on header unions": unions as arguments, results, in tuples and structs, compared and swapped.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

header word_t {
    bit<16> v;
}

header_union either_t {
    byte_t b;
    word_t w;
}

struct headers_t {
    either_t x;
    either_t y;
}

struct meta_t {
    either_t kept;
}

either_t grown(in either_t u) {
    either_t r;
    if (u.b.isValid()) {
        r.w = { 8w0 ++ u.b.v };
    } else {
        r = u;
    }
    return r;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        transition select(p.lookahead<bit<8>>()) {
            0: byte;
            default: word;
        }
    }
    state byte {
        p.extract(h.x.b);
        p.extract(h.y.w);
        transition accept;
    }
    state word {
        p.extract(h.x.w);
        p.extract(h.y.b);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        m.kept = h.x;
        h.x = h.y;
        h.y = grown(m.kept);
        if (h.y == m.kept) {
            h.x.b = { 0xEE };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
