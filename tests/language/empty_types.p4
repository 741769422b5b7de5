// P4_16 "reading uninitialized values …": empty headers, structs and tuples; a header without fields still has its validity.
#include "include/v1.p4"

header none_t {}

struct nothing_t {}

struct holder_t {
    nothing_t n;
    tuple<> t;
}

header byte_t {
    bit<8> v;
}

struct headers_t {
    none_t n;
    byte_t b;
}

struct meta_t {
    nothing_t n;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.n);
        p.extract(h.b);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        holder_t x = { {}, {} };
        holder_t y;
        y = x;
        none_t other;
        if (h.n.isValid() && x == y && h.n != other) {
            h.b.v = h.b.v + 1;
        }
        h.n.setInvalid();
        if (h.n == other) {
            h.b.v = h.b.v + 0x10;
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
