// P4_16 "operations on structure-valued expressions": by position or by name, `...` for what is left out.
#include "include/v1.p4"

struct inner_t {
    bit<8> x;
    bit<8> y;
}

struct s_t {
    bit<8> a;
    bit<8> b;
    inner_t inner;
}

s_t make(in bit<8> v) {
    return { inner = { x = v, ... }, ... };
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
    bit<8> r;
}

#include "include/data.p4"

void set(inout data_t d, in s_t s) {
    d.a = s.a;
    d.b = s.b;
    d.c = s.inner.x;
    d.d = s.inner.y;
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        set(h.d, { 1, 2, { 3, 4 } });
        s_t x = (s_t){ b = 5, a = 6, ... };
        if (x == (s_t){ a = 6, b = 5, inner = { 0, 0 } }) {
            h.d.r = 1;
        }
        s_t y = { 7, ... };
        h.d.r = h.d.r + y.a + y.b + make(8).inner.x;
    }
}

#include "include/main.p4"
