// Reads of what was never written, on all paths and on some.
#include <core.p4>

header H { bit<8> a; bit<8> b; }
struct Pair { bit<8> x; bit<8> y; }
struct Headers { H h; H[3] s; }
extern void use<T>(in T value);

void fill(out Pair p, in bool both) {
    p.x = 1;
    if (both) {
        p.y = 2;
    }
}

parser P(packet_in p, out Headers hdr, out bit<8> kind) {
    bit<8> depth;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a) {
            1: one;
            2: more;
            default: accept;
        }
    }
    state one {
        depth = 1;
        kind = depth;
        transition more;
    }
    state more {
        p.extract(hdr.s.next);
        kind = depth;
        use(hdr.s.next);
        transition accept;
    }
}

control C(inout Headers hdr, out bit<8> code, out bool done) {
    bit<8> never;
    bit<8> sometimes;
    bit<8> always;
    Pair pair;
    action set(bit<8> v) { sometimes = v; always = v; }
    action other() { always = 0; }
    action clear(out bit<8> v) { }
    table t {
        key = { hdr.h.a: exact; never: exact; }
        actions = { set; other; }
        default_action = other();
    }
    apply {
        switch (t.apply().action_run) {
            set: { use(sometimes); }
            other: { use(sometimes); }
        }
        use(always);
        pair.x = 1;
        use(pair.x);
        use(pair);
        clear(pair.y);
        if (hdr.h.a == 1) {
            exit;
        }
        bit<8> sum;
        for (bit<8> i in 0 .. 3) {
            if (i == 2) {
                sum = 1;
                break;
            }
        }
        use(sum);
        bit<8> low;
        low[3:0] = 1;
        code = hdr.h.a == 2 ? never : 1;
        done = true;
    }
}

control D(inout Headers hdr) {
    apply {
        Pair p;
        fill(p, true);
        use(p);
        bit<8> x;
        if (hdr.h.isValid()) {
            x = hdr.h.a;
        } else {
            return;
        }
        use(x);
    }
}

parser Parse(packet_in p, out Headers hdr, out bit<8> kind);
control Work(inout Headers hdr, out bit<8> code, out bool done);
control Finish(inout Headers hdr);
package Top(Parse p, Work w, Finish f);
Top(P(), C(), D()) main;
