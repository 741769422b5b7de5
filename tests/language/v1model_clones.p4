// v1model: clones of ingress and of egress, what they keep of the metadata, and where their sessions send them.
#include "include/v1.p4"

header h_t {
    bit<8> kind;
    bit<8> seen;    // instance_type
    bit<8> kept;
    bit<8> lost;
    bit<8> rid;
}

struct headers_t {
    h_t h;
}

struct meta_t {
    @field_list(1, 2)
    bit<8> kept;
    bit<8> lost;
    @field_list(2)
    bit<8> more;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.h.kind == 1) {
            // The metadata is taken as ingress leaves it, the packet as it came.
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            m.kept = 0x11;
            m.lost = 0x12;
            m.more = 0x20;
            h.h.kind = 0x77;
        } else if (h.h.kind == 2) {
            // The last one counts; a drop does not hinder it.
            clone(CloneType.I2E, 5);
            clone_preserving_field_list(CloneType.I2E, 6, 2);
            m.kept = 0x21;
            m.more = 0x22;
            mark_to_drop(s);
        } else if (h.h.kind == 5) {
            // A session that nobody has set up.
            clone(CloneType.I2E, 99);
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 0) {
            if (h.h.kind == 3) {
                m.kept = 0x31;
                m.more = 0x32;
                h.h.lost = 0xee;
                clone_preserving_field_list(CloneType.E2E, 5, 2);
            } else if (h.h.kind == 4) {
                // The clone has the headers of now.
                clone(CloneType.E2E, 7);
                mark_to_drop(s);
                m.kept = 0x41;
                h.h.lost = 0xee;
            }
        } else {
            h.h.lost = h.h.lost + m.lost;
        }
        h.h.kept = m.kept + m.more;
        h.h.seen = (bit<8>) s.instance_type;
        h.h.rid = (bit<8>) s.egress_rid;
    }
}

control C(inout headers_t h, inout meta_t m) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
