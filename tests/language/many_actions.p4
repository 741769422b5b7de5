// P4_16 "tables": one of many actions, which a table's code no longer asks for one after the other; also where nothing matches,
// by a default action with data.
#include "include/v1.p4"

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> x;
    bit<8> y;
    bit<8> z;
}

#include "include/data.p4"

#define ACTION(n) action x##n(bit<8> v) { h.d.x = v + n; } \
                  action y##n(bit<8> v) { h.d.y = v + n; } \
                  action z##n(bit<8> v) { h.d.z = v + n; }

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    ACTION(0)
    ACTION(1)
    ACTION(2)
    ACTION(3)
    ACTION(4)
    ACTION(5)
    ACTION(6)
    ACTION(7)
    ACTION(8)
    ACTION(9)
    table by_value {
        key = { h.d.a : exact; h.d.b : exact; h.d.c : exact; }
        actions = { x0; x1; x2; x3; x4; x5; x6; x7; x8; x9; }
        default_action = x7(0x10);
        size = 1024;
    }
    table by_prefix {
        key = { h.d.b : lpm; }
        actions = { y0; y1; y2; y3; y4; y5; y6; y7; y8; y9; }
        default_action = y9(0x20);
        size = 1024;
    }
    table by_mask {
        key = { h.d.c : ternary; }
        actions = { z0; z1; z2; z3; z4; z5; z6; z7; z8; z9; }
        default_action = z0(0x30);
        size = 1024;
    }
    apply {
        by_value.apply();
        by_prefix.apply();
        by_mask.apply();
    }
}

#include "include/main.p4"
