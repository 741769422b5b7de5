// Fields of headers that are not, or may not be, valid.
#include <core.p4>

header H { bit<8> a; }
header G { bit<8> b; }
header_union U { H h; G g; }
struct Headers { H h; H k; H[2] s; U u; }

parser P(packet_in p, out Headers hdr) {
    state start {
        transition select(p.lookahead<bit<8>>()) {
            1: with_k;
            default: without;
        }
    }
    state with_k {
        p.extract(hdr.k);
        transition without;
    }
    state without {
        p.extract(hdr.h);
        hdr.k.a = hdr.h.a;
        hdr.s[0].a = 1;
        p.extract(hdr.u.g);
        hdr.u.h.a = 1;
        transition accept;
    }
}

control C(inout Headers hdr) {
    H local;
    action drop_h() { hdr.h.setInvalid(); }
    table t {
        key = { hdr.h.isValid(): exact; hdr.h.a: exact; }
        actions = { drop_h; NoAction; }
        default_action = NoAction();
    }
    apply {
        hdr.h.a = 1;
        if (!hdr.k.isValid()) {
            hdr.k.a = 1;
        }
        hdr.k.a = 2;
        local.a = 1;
        local = hdr.h;
        local.a = 2;
        if (hdr.h.isValid() && hdr.h.a == 1 || hdr.h.a == 2) {
            t.apply();
        }
        hdr.h.a = 3;
        if (hdr.h.isValid()) {
            hdr.h.a = 4;
        }
        hdr.h = { 5 };
        hdr.h.a = 6;
        hdr.h = {#};
        hdr.h.a = 7;
        hdr.s[1].setInvalid();
        bit<1> i = 0;
        hdr.s[i].a = 1;
        hdr.s[1].a = 2;
        hdr.u.h.setValid();
        hdr.u.h.a = 8;
        hdr.u.g.setValid();
        hdr.u.h.a = 9;
    }
}

parser Parse(packet_in p, out Headers hdr);
control Work(inout Headers hdr);
package Top(Parse p, Work w);
Top(P(), C()) main;
