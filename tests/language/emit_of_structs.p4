// P4_16 "data insertion into packets": `emit` of structs, nested ones, stacks and unions emits what is valid, in order.
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

struct inner_t {
    byte_t[2] s;
    either_t u;
}

struct headers_t {
    byte_t first;
    inner_t inner;
    tuple<byte_t, byte_t> t;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.first);
        p.extract(h.inner.s[1]);
        p.extract(h.inner.u.w);
        p.extract(h.t[0]);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.first.v = h.first.v + 1;
        h.t[1] = h.first;
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
