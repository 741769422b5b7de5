// P4_16 "operations on header stacks": `push_front`, `pop_front`, `size`, assignment, equality, elements by run-time index.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

header op_t {
    bit<8> op;
    bit<8> i;
    bit<8> r;
}

struct headers_t {
    op_t o;
    byte_t[3] s;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.o);
        p.extract(h.s.next);
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        byte_t[3] old = h.s;
        switch (h.o.op) {
            1: { h.s.push_front(1); h.s[0] = { 0xF0 }; }
            2: { h.s.pop_front(1); }
            3: { h.s[h.o.i].v = 0x99; }
            4: { h.o.r = h.s[h.o.i].v; }
            5: { h.s.push_front(2); }
            6: { h.s[2] = h.s[h.o.i]; }
            7: { h.s.pop_front(5); }
            8: { h.s[h.o.i].setInvalid(); }
        }
        h.o.r = h.o.r + (h.s == old ? (bit<8>)(h.s.size << 4) : 0);
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
