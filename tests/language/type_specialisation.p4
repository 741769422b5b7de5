// P4_16 "type specialization": generic structs, headers and stacks of them, with inferred and given arguments.
#include "include/v1.p4"

header value_t<T> {
    T v;
}

struct pair_t<A, B> {
    A a;
    B b;
}

typedef pair_t<value_t<bit<8>>, value_t<bit<16>>> both_t;

struct headers_t {
    both_t both;
    value_t<bit<8>>[2] rest;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.both.a);
        p.extract(h.both.b);
        p.extract(h.rest.next);
        p.extract(h.rest.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        pair_t<bit<8>, pair_t<bool, bit<16>>> x = { h.both.a.v, { true, h.both.b.v } };
        if (x.b.a) {
            h.both.b.v = x.b.b + 1;
        }
        h.rest = { { x.a }, h.rest[0] };
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
