// P4_16 "for statement", "parser abstract machine": a target may bound loops. One packet has 65,536 turns, for all loops
// whose end the packet decides.
#include "include/v1.p4"

header h_t {
    bit<8> kind;
    bit<16> n;
    bit<16> result;
}

header s_t {
    bit<8> v;
}

struct headers_t {
    h_t h;
    s_t[2] s;
}

struct meta_t {
    bit<16> i;
    bit<16> j;
    bit<32> index;
    bit<32> count;
}

// n turns.
parser Inner(packet_in p, in bit<16> n, inout meta_t m) {
    state start {
        m.j = 0;
        transition spin;
    }
    state spin {
        m.j = m.j + 1;
        m.count = m.count + 1;
        transition select(m.j == n) {
            true: accept;
            false: spin;
        }
    }
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Inner() inner;
    state start {
        p.extract(h.h);
        transition select(h.h.kind) {
            4: beyond;
            5: outer;
            default: accept;
        }
    }
    // There is no such element: nothing is extracted.
    state beyond {
        m.index = 9;
        p.extract(h.s[m.index]);
        transition select(h.h.kind) {
            4: beyond;
            default: accept;
        }
    }
    state outer {
        m.i = m.i + 1;
        inner.apply(p, h.h.n, m);
        transition select(m.i == h.h.n) {
            true: accept;
            false: outer;
        }
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action around(bit<16> by) {
        for (bit<16> i in 1 .. h.h.n) {
            m.count = m.count + (bit<32>)by;
        }
    }
    table t {
        actions = { around; }
        default_action = around(1);
    }
    action one() {
        m.count = m.count + 1;
    }
    table searched {
        key = {
            h.h.kind: ternary;
        }
        actions = { one; NoAction; }
        const entries = {
            0x08 &&& 0x0f: one();
        }
    }
    apply {
        s.egress_spec = 1;
        if (s.parser_error == error.ParserTimeout) {
            s.egress_spec = 2;
        } else if (h.h.kind == 1) {
            for (bit<16> i in 1 .. h.h.n) {
                for (bit<16> j in 1 .. h.h.n) {
                    m.count = m.count + 1;
                }
            }
        } else if (h.h.kind == 2) {
            for (bit<32> i = 0; i < (bit<32>)h.h.n; i = i + 1) {
                m.count = m.count + 1;
            }
            for (bit<32> i = 0; i < (bit<32>)h.h.n; i = i + 1) {
                m.count = m.count + 1;
            }
        } else if (h.h.kind == 3) {
            for (bit<16> i in 1 .. h.h.n) {
                t.apply();
            }
        } else if (h.h.kind == 7) {
            for (bit<16> i in 1 .. h.h.n) {
                around(2);
            }
        } else if (h.h.kind == 8) {
            for (bit<16> i in 1 .. h.h.n) {
                searched.apply();
            }
        }
        h.h.result = m.count[15:0];
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        bit<16> left = h.h.n;
        if (h.h.kind == 6) {
            for (bit<16> i in 1 .. h.h.n) {
                for (; left != 0;) {
                    left = left - 1;
                }
                left = h.h.n;
            }
        }
        p.emit(h.h);
    }
}

#include "include/main.p4"
