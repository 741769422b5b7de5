// P4_16 "exit statement" and "return statement": in controls, sub-controls, actions, tables' actions and loops.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> r;
}

#include "include/data.p4"

control Sub(inout bit<8> r, in bit<8> a) {
    apply {
        if (a == 1) {
            return;
        }
        for (bit<8> i in 0 .. 9) {
            r = r + 1;
            if (a == 2 && i == 3) {
                exit;
            }
            if (a == 3 && i == 4) {
                return;
            }
        }
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Sub() sub;
    action leave() {
        h.d.r = h.d.r + 0x80;
        exit;
    }
    action back() {
        if (h.d.a == 5) {
            return;
        }
        h.d.r = h.d.r + 0x40;
    }
    table t {
        key = {
            h.d.a : exact;
        }
        actions = {
            leave;
            back;
        }
        default_action = back;
    }
    apply {
        sub.apply(h.d.r, h.d.a);
        t.apply();
        h.d.r = h.d.r + 0x10;
    }
}

#include "include/main.p4"
