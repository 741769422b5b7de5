// P4_16 "actions": directional parameters are bound in the table's list, the control plane gives the others; each table
// binds its own.
#include "include/v1.p4"

header data_t {
    bit<8> k;
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action add(inout bit<8> to, in bit<8> what, bit<8> more) {
        to = to + what + more;
    }
    table t {
        key = {
            h.d.k : exact;
        }
        actions = {
            add(h.d.a, h.d.b);
            NoAction;
        }
        default_action = NoAction;
    }
    table u {
        actions = {
            add(h.d.b, 1);
        }
        default_action = add(h.d.b, 1, 2);
    }
    apply {
        t.apply();
        u.apply();
    }
}

#include "include/main.p4"
