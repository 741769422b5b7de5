// P4_16 "function declarations": type parameters stand for what the call gives, or for what its arguments are.
#include "include/v1.p4"

struct pair_t<A, B> {
    A a;
    B b;
}

void swap<T>(inout T x, inout T y) {
    T t = x;
    x = y;
    y = t;
}

A first<A, B>(in pair_t<A, B> p) {
    return p.a;
}

T choose<T>(in bool cond, in T x, in T y) {
    return cond ? x : y;
}

header data_t {
    bit<8> a;
    bit<16> b;
    bit<8> c;
    bit<16> d;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        swap(h.d.a, h.d.c);
        swap<bit<16>>(h.d.b, h.d.d);
        pair_t<bit<8>, bit<16>> p = { h.d.a, h.d.b };
        h.d.a = first(p) + 1;
        bit<8> k = choose(true, 8w7, 8w9);
        h.d.c = h.d.c + k;
    }
}

#include "include/main.p4"
