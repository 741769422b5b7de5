// P4_16 "match-action unit invocation": one table may be applied at several places; its keys are evaluated each time.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action to(bit<8> v) {
        h.d.a = v;
    }
    table t {
        key = {
            h.d.a : exact;
        }
        actions = {
            to;
            NoAction;
        }
        default_action = NoAction;
    }

    apply {
        t.apply();
        if (h.d.a < 8) {
            t.apply();
            h.d.b = h.d.b + 1;
        } else if (t.apply().hit) {
            h.d.b = h.d.b + 0x10;
        }
    }
}

#include "include/main.p4"
