#include <core.p4>
header H { bit<8> f; }
header V { bit<8> n; varbit<32> v; }
struct S { H h; V v; }
parser NoStart(packet_in p) { state begin { transition accept; } }
parser Work(packet_in p, out S s) {
    value_set<bit<16>>(4) kinds;
    state start {
        p.extract(s.h);
        p.extract(s.v);
        p.extract(s.h, 8);
        p.extract(s);
        transition select(s.h.f) {
            1: nxt;
            kinds: accept;
            (1, 2): accept;
            true: accept;
            _: next;
            5: accept;
        }
    }
    state next { transition select(s.h.f, s.v.n) { 1: accept; (1, 2, 3): accept; } }
    state next { transition reject; }
    state accept {}
    state odd { transition select(5, s.h) { default: accept; } }
}
