// P4_16 "operations on header unions": at most one member is valid; assignment, equality and `isValid`.
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
    byte_t op;
    either_t u;
    byte_t flags;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.op);
        transition select(h.op.v[7:7]) {
            0: byte;
            1: word;
        }
    }
    state byte {
        p.extract(h.u.b);
        transition accept;
    }
    state word {
        p.extract(h.u.w);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        either_t old = h.u;
        either_t none;
        h.flags = { 0 };
        switch (h.op.v[6:0]) {
            1: { h.u.w.setValid(); h.u.w.v = 0x1111; }
            2: { h.u.b = { 0x22 }; }
            3: { h.u.b.setInvalid(); }
            4: { h.u = none; }
            5: { word_t x; h.u.w = x; }
            6: { h.u = (either_t){#}; }
            7: { byte_t x; h.u.b = x; }
        }
        h.flags.v[0:0] = (bit<1>)h.u.isValid();
        h.flags.v[1:1] = (bit<1>)(h.u == old);
        h.flags.v[2:2] = (bit<1>)(h.u == none);
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
