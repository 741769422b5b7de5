// P4_16 "data insertion into packets": `emit` wherever a statement may stand, in loops and under conditions.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t n;
    byte_t[3] s;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.n);
        p.extract(h.s.next);
        p.extract(h.s.next);
        p.extract(h.s.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        for (bit<8> i in 1 .. h.n.v) {
            if (i == 5) {
                return;
            }
            p.emit((byte_t){ i });
            p.emit(h.s[i - 1]);
        }
        p.emit(h.n);
    }
}

#include "include/main.p4"
