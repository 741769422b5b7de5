// P4_16 "assignment statement": the whole right side is read before anything is written.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct bytes_t {
    byte_t a;
    byte_t b;
    byte_t c;
    bit<8> d;
}

void swap(inout byte_t x, inout byte_t y) {
    byte_t t = x;
    x = y;
    y = t;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bytes_t x = { { h.d.a }, { h.d.b }, { h.d.c }, h.d.d };
        x = x;
        x = { x.b, x.c, x.a, x.d + x.a.v };
        swap(x.a, x.b);
        h.d = { x.a.v, x.b.v, x.c.v, x.d };
        byte_t[2] y = { { 1 }, { 2 } };
        y = { y[1], y[0] };
        h.d.d = h.d.d + y[0].v;
    }
}

#include "include/main.p4"
