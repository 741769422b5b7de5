// P4_16 "entries": written in the program, in order of priority, with values, masks, ranges, prefixes and `_`.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
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
    table t {
        key = {
            h.d.a : ternary;
            h.d.b : range;
        }
        actions = {
            set_x;
        }
        const default_action = set_x(0xFF);
        const entries = {
            (0x10, 0 .. 9) : set_x(1);
            (0x10 &&& 0xF0, 5) : set_x(2);
            (0x10 &&& 0xF0, _) : set_x(3);
            (_, 0x50) : set_x(4);
        }
    }
    table l {
        key = {
            h.d.b : lpm;
        }
        actions = {
            set_y;
            NoAction;
        }
        default_action = NoAction;
        const entries = {
            0x00 &&& 0xF0 : set_y(1);
            0x00 &&& 0xF8 : set_y(2);
            0x80 &&& 0x80 : NoAction();
        }
    }

    apply {
        t.apply();
        l.apply();
    }
}

#include "include/main.p4"
