#include <core.p4>
header h_t { bit<8> f; }
struct S { h_t a; h_t b; }
void clear(out h_t h) { }
void drop_one(inout S s, in bool which) { s.a.setInvalid(); if (which) { s.b.setInvalid(); } }
void fill(out h_t h) { h.setValid(); h.f = 1; }
h_t[2] stack() { h_t[2] s; return s; }
h_t[2] half() { h_t[2] s; s[0].setValid(); s[0].f = 1; return s; }
control C(inout S s, inout bit<8> x) {
    h_t local;
    apply {
        x = local.f;
        clear(s.a);
        x = x + s.a.f;
        fill(s.a);
        x = x + s.a.f;
        drop_one(s, x == 1);
        x = x + s.a.f + s.b.f;
        h_t[2] all = stack();
        all = half();
        s.a = all[0];
    }
}
parser P(packet_in p, out h_t[2] hs) {
    state start {
        p.extract(hs.next);
        transition select(hs.next.f) {
            0: start;
            _: accept;
        }
    }
}
control Any(inout S s, inout bit<8> x);
parser AnyParser(packet_in p, out h_t[2] hs);
package Top(Any c, AnyParser p);
Top(C(), P()) main;
