// P4_16 "calling convention": structs, headers, stacks and tuples as arguments and results of functions, actions and
// controls.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct pair_t {
    byte_t x;
    bit<8> y;
}

struct headers_t {
    byte_t[3] s;
}

struct meta_t {
    pair_t p;
}

pair_t swapped(in pair_t p) {
    pair_t r;
    if (p.x.isValid()) {
        r.x = { p.y };
    }
    r.y = p.x.v;
    return r;
}

void rotate(inout byte_t[3] s) {
    byte_t last = s[2];
    s.push_front(1);
    s[0] = last;
}

tuple<bit<8>, bit<8>> both(in byte_t a, in byte_t b) {
    return { a.v, b.v };
}

control Sub(inout pair_t p, in byte_t[3] s, out byte_t made) {
    apply {
        p.y = p.y + s[1].v;
        if (p.x.isValid()) {
            made.setValid();
            made.v = p.y;
        }
    }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.s.next);
        p.extract(h.s.next);
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Sub() sub;
    apply {
        rotate(h.s);
        m.p = swapped({ h.s[0], 0x40 });
        tuple<bit<8>, bit<8>> t = both(h.s[1], h.s[2]);
        h.s[1].v = t[1];
        sub.apply(m.p, h.s, h.s[2]);
        if (h.s[0].v == 0xFF) {
            m.p.x.setInvalid();
            sub.apply(m.p, h.s, h.s[0]);
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
