// P4_16 "entry priorities": the largest wins, or the smallest where the table says so; entries without one follow the
// entry before them.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> x;
    bit<8> y;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set_x(bit<8> v) {
        h.d.x = v;
    }
    action set_y(bit<8> v) {
        h.d.y = v;
    }
    table largest {
        key = {
            h.d.a : ternary;
        }
        actions = {
            set_x;
            NoAction;
        }
        default_action = NoAction;
        priority_delta = 2;
        entries = {
            const priority = 10 : _ : set_x(1);
            priority = 30 : 0x10 &&& 0xFC : set_x(2);
            0x10 &&& 0xF0 : set_x(3);
        }
    }
    table smallest {
        key = {
            h.d.a : ternary;
        }
        actions = {
            set_y;
            NoAction;
        }
        default_action = NoAction;
        largest_priority_wins = false;
        entries = {
            priority = 1 : 0x11 : set_y(1);
            priority = 20 : 0x10 &&& 0xF0 : set_y(3);
            priority = 15 : 0x12 : set_y(2);
        }
    }

    apply {
        largest.apply();
        smallest.apply();
    }
}

#include "include/main.p4"
