// v1model: a packet that is resubmitted has 1,024 turns of loops left at most.
#include "include/v1.p4"

header h_t {
    bit<8> kind;
    bit<16> n;
    bit<16> result;
}

struct headers_t {
    h_t h;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        // Nothing of it reaches the copy but what it leaves of the turns.
        bit<16> before = h.h.n;
        if (h.h.kind == 2 && s.instance_type == 0) {
            before = 65000;
        }
        if (h.h.kind != 0 && s.instance_type == 0) {
            if (h.h.kind == 2) {
                for (; before != 0;) {
                    before = before - 1;
                }
            }
            resubmit_preserving_field_list(0);
        } else {
            for (; before != 0;) {
                before = before - 1;
                h.h.result = h.h.result + 1;
            }
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.h);
    }
}

#include "include/main.p4"
