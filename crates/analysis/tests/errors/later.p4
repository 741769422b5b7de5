#include <core.p4>
struct rec { rec r; }
header list_t { bit<8> a; list_t next; }
const bit<8> ONE = ONE + 1;
control C(inout bit<8> x, inout T late) {
    action a() { b(); }
    action b() { x = later(x); }
    table t {
        key = { x: exact; }
        actions = { c; a; }
    }
    action c() { t.apply(); }
    apply {
        y = 3;
        bit<8> y;
        x = LATE;
        d();
    }
}
bit<8> later(in bit<8> v) { return v; }
typedef bit<8> T;
const bit<8> LATE = 1;
