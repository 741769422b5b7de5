// P4_16 "operations on header stacks", "operations on arrays", "header unions": elements of elements by run-time indices, to
// read, to write, to extract and to emit; what lies beyond the end is 0 and stays as it is.
#include "include/v1.p4"

header op_t {
    bit<8> op;
    bit<8> i;
    bit<8> j;
    bit<8> r;
}

header cell_t {
    bit<8> tag;
    bit<8>[3] v;
}

header text_t {
    bit<8> n;
    varbit<16> t;
}

header_union either_t {
    cell_t c;
    text_t t;
}

struct headers_t {
    op_t o;
    cell_t[3] s;
    either_t[2] u;
    cell_t last;
}

struct inner_t {
    bit<8> a;
    bit<16>[2] b;
}

struct meta_t {
    inner_t[3] m;
    bit<72>[2] wide;
    bool[9] flags;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.o);
        p.extract(h.s.next);
        p.extract(h.s.next);
        transition select(h.o.op) {
            3: by_index;
            4: into_union;
            5: of_varbit;
            default: accept;
        }
    }

    state by_index {
        p.extract(h.s[h.o.i]);
        transition accept;
    }

    state into_union {
        p.extract(h.u[h.o.i].c);
        transition accept;
    }

    state of_varbit {
        p.extract(h.u.next.c);
        p.extract(h.u[h.o.i].t, 8);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.o.op == 0) {
            h.o.r = h.s[h.o.i].v[h.o.j];
        } else if (h.o.op == 1) {
            h.s[h.o.i].v[h.s[h.o.j].tag] = 0xEE;
        } else if (h.o.op == 2) {
            m.m[h.o.i].b[h.o.j] = 0x1234;
            m.m[2].b[0] = m.m[2].b[0] + 1;
            m.wide[h.o.j] = 0x112233445566778899;
            m.flags[h.o.i + 4] = true;
            h.s[0].v[0] = (bit<8>)m.m[h.o.i].b[h.o.j];
            h.s[0].v[1] = (bit<8>)m.m[2].b[0];
            h.s[0].v[2] = m.wide[h.o.j][71:64] + (bit<8>)m.wide[1];
            h.o.r = (bit<8>)((bit<1>)m.flags[6] ++ (bit<1>)m.flags[h.o.i + 4] ++ (bit<1>)m.flags[h.o.i + 5]);
        } else if (h.o.op == 6) {
            h.u[h.o.i].c = { 7, { 1, 2, 3 } };
            h.u[h.o.j].t.setValid();
            h.u[h.o.j].t.n = 9;
        } else if (h.o.op == 7) {
            h.s[h.o.i] = h.s[h.o.j];
        } else if (h.o.op == 8) {
            h.last = h.s[h.o.i];
            h.last.v[h.o.j] = 0xDD;
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.o);
        p.emit(h.s);
        p.emit(h.u);
        if (h.o.op == 9) {
            p.emit(h.s[h.o.i]);
        }
        p.emit(h.last);
    }
}

#include "include/main.p4"
