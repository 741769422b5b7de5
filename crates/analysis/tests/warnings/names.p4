#include <core.p4>
// Names that hide others, and what is used by its declaration rather than by its name.
const bit<8> x = 1;
header z_t { bit<8> f; }
struct empty_t { z_t[0] none; }
bit<8> bound(in bit<8> val, in bit<8> bound) { return val > bound ? bound : val; }
control C(inout bit<8> m, inout empty_t e) {
    action a(bit<8> data) { bit<8> data2 = data; m = data2; }
    table t {
        actions = { a; }
        default_action = a(1);
        szie = 4;
        implementation = 1;
        colour = 1;
    }
    apply {
        bit<8> x = 3;
        m = bound(x, 4);
        t.apply();
        { bit<8> t = 1; m = t; }
    }
}
control D(inout bit<8> m) {
    action b(bit<8> m) { }
    apply { b(1); }
}
