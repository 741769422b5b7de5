// P4_16 "match-action unit invocation": `hit`, `miss` and `action_run` wherever an expression may stand.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> hit;
    bit<8> miss;
    bit<8> run;
    bit<8> both;
    bit<8> v;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action one() {
        h.d.v = h.d.v + 1;
    }
    action two() {
        h.d.v = h.d.v + 0x10;
    }
    action three() {}
    action four() {}
    table t {
        key = {
            h.d.a : exact;
        }
        actions = {
            one;
            two;
            three;
            four;
        }
        default_action = four;
    }

    apply {
        bool b = t.apply().hit;
        h.d.hit = (bit<8>)(bit<1>)b;
        if (t.apply().miss) {
            h.d.miss = 1;
        } else {
            h.d.miss = 2;
        }
        switch (t.apply().action_run) {
            one: { h.d.run = 1; }
            two:
            three: { h.d.run = 2; }
            default: { h.d.run = 3; }
        }
        // not applied a fourth time unless a is 2
        h.d.both = h.d.a == 2 && t.apply().hit ? 8w1 : 0;
    }
}

#include "include/main.p4"
