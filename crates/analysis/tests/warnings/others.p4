// Numbers, parser states, tables, calls.
#include <core.p4>

header H { bit<8> a; bit<16> b; bit<8> c; }
struct Headers { H h; }
extern bit<8> now();
@deprecated("use now")
extern bit<8> clock();
@deprecated("it has no place")
struct Old { bit<8> x; }
bit<8> twin(in bit<8> x) { return x; }
bit<8> twin(in bit<8> x) { return 1; }
void both(out bit<8> x, out bit<8> y) { x = 1; y = 2; }

@noWarn("index_size")
parser P(packet_in p, out Headers hdr) {
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a, hdr.h.c) {
            (1, 2): next;
            (1, 3): next;
            (1, 2): accept;
            (9 .. 3, _): next;
            default: accept;
            (4, _): next;
        }
    }
    state next { hdr.h.a = 1; }
    state lost { transition accept; }
}

parser Q(packet_in p, out Headers hdr) {
    state start { transition select(p.lookahead<bit<8>>()) { default: reject; } }
}

control C(inout Headers hdr) {
    action a1() { }
    action a2() { }
    action a3() { }
    table t {
        key = { hdr.h.a: ternary; 8w1: exact; }
        actions = { a1; a2; a3; }
        default_action = a1();
        largest_priority_wins = false;
        entries = {
            priority = 10: (1 &&& 3, 1): a1();
            priority = 10: (7 &&& 3, 1): a2();
            priority = 5: (2, 1): a3();
        }
    }
    apply {
        Old old = { 1 };
        hdr.h.a = 300;
        hdr.h.a = -1;
        hdr.h.b = 16w70000;
        hdr.h.a = hdr.h.a << 8;
        both(hdr.h.a, hdr.h.c);
        both(hdr.h.a, hdr.h.a);
        hdr.h.c = clock() + now() + old.x;
        switch (t.apply().action_run) {
            a1: { }
            a2:
            a3:
        }
    }
}

parser Parse(packet_in p, out Headers hdr);
control Work(inout Headers hdr);
package Top(Parse p, Parse q, Work w);
Top(P(), Q(), C()) main;
