// P4_16 "keys": a table without keys runs its default action, and that is a miss.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set_a(bit<8> v) {
        h.d.a = v;
    }
    action set_b(bit<8> v) {
        h.d.b = v;
    }
    table fixed {
        actions = {
            set_a;
        }
        const default_action = set_a(7);
    }
    table open {
        key = {}
        actions = {
            set_b;
            NoAction;
        }
        default_action = NoAction();
    }

    apply {
        fixed.apply();
        if (open.apply().miss) {
            h.d.c = 1;
        }
    }
}

#include "include/main.p4"
