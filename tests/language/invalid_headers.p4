// P4_16 "operations on headers": what bmv2 does with the fields of invalid headers. `setInvalid` and the copy of an
// invalid header keep them, `setValid` of an invalid header makes them 0, and a table key that names one is 0.
#include "include/v1.p4"

header op_t {
    bit<8> op;
}

header pair_t {
    bit<8> a;
    bit<8> b;
}

header_union either_t {
    pair_t pair;
    op_t op;
}

struct headers_t {
    op_t op;
    pair_t x;
    pair_t y;
    pair_t never;
    either_t u;
    pair_t[2] s;
    pair_t out1;
}

struct meta_t {
    bit<8> raw;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.op);
        p.extract(h.x);
        transition select(h.op.op) {
            0x20 &&& 0xf0: more;
            default: accept;
        }
    }
    state more {
        p.extract(h.y);
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    bit<8> answer = 0xee;
    action found(bit<8> v) {
        answer = v;
    }
    action invalidate_x() {
        h.x.setInvalid();
    }
    table exact_keys {
        key = {
            h.x.a: exact;
            h.never.a: exact;
        }
        actions = { found; }
        const entries = {
            (0, 0): found(1);
            (0, 5): found(2);
            (0x11, 0): found(3);
        }
        const default_action = found(0xdd);
    }
    table lpm_key {
        key = { h.x.a: lpm; }
        actions = { found; }
        const entries = {
            0x10 &&& 0xf0: found(1);
            0x00 &&& 0x80: found(2);
        }
        const default_action = found(0xdd);
    }
    table ternary_keys {
        key = {
            h.x.a & 0x0f: ternary;
            h.x.b: range;
            h.x.isValid(): exact;
        }
        actions = { found; }
        const entries = {
            (1, _, false): found(0x99);
            (_, 1 .. 0xff, false): found(0x98);
            (0, 0 .. 0, false): found(0x55);
        }
        const default_action = found(0xdd);
    }
    // p4c computes these keys before the lookup: they are what the field holds.
    table computed_keys {
        key = {
            h.x.a[3:0]: exact @name("low");
            h.x.a + 0: exact @name("sum");
        }
        actions = { found; }
        const entries = { (1, 0x11): found(0x44); }
        const default_action = found(0xdd);
    }
    table clear {
        actions = { invalidate_x; }
        const default_action = invalidate_x();
    }
    apply {
        if (h.op.op == 1) {
            // read after setInvalid
            h.x.setInvalid();
            answer = h.x.a;
        } else if (h.op.op == 2) {
            // setValid of an invalid header
            h.x.setInvalid();
            h.x.setValid();
            answer = h.x.a;
        } else if (h.op.op == 3) {
            // setValid of a valid one
            h.x.setValid();
            answer = h.x.a;
        } else if (h.op.op == 4) {
            // what was written to an invalid header is read back, and goes with setValid
            h.never.b = 7;
            answer = h.never.b;
            h.never.setValid();
            h.never.a = answer;
        } else if (h.op.op == 5) {
            // a copy of an invalid header keeps the fields
            h.x = h.never;
            answer = h.x.b;
        } else if (h.op.op == 6) {
            h.x = (pair_t){#};
            answer = h.x.b;
        } else if (h.op.op == 7) {
            h.never.a = 5;
            h.x.setInvalid();
            exact_keys.apply();
        } else if (h.op.op == 8) {
            h.x.setInvalid();
            lpm_key.apply();
        } else if (h.op.op == 9) {
            h.x.setInvalid();
            ternary_keys.apply();
        } else if (h.op.op == 10) {
            h.x.setInvalid();
            computed_keys.apply();
        } else if (h.op.op == 11) {
            exact_keys.apply();
        } else if (h.op.op == 12) {
            // in an action that a table runs
            clear.apply();
            answer = h.x.b;
        } else if (h.op.op == 13) {
            // the other member of a union goes, its fields stay
            h.u.pair = { 0x31, 0x32 };
            h.u.op.setValid();
            answer = h.u.pair.b;
            h.u.op.setInvalid();
        } else if (h.op.op[7:4] == 2) {
            // only sometimes extracted, and sometimes made invalid
            if (h.x.a == 0x11) {
                h.y.setInvalid();
            }
            answer = h.y.a;
            if (h.x.b == 0x77) {
                h.y.setValid();
            }
            h.s[0].setInvalid();
            if (h.op.op[0:0] == 1) {
                h.s[0].setValid();
            }
            m.raw = h.s[0].a;
            h.out1.setValid();
            h.out1.b = m.raw;
        }
        h.op.op = answer;
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
