// v1model: packets that go round again, with the metadata of a field list, and are cut as they leave.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> kind;
    bit<8> turns;
    bit<8> seen;    // instance_type
    bit<8> length;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    @field_list(1, 2)
    bit<8> turns;
    bit<8> lost;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        if (hdr.h.kind == 1 && meta.turns < 3) {
            meta.turns = meta.turns + 1;
            meta.lost = 1;
            // Does not reach the packet that comes back: it is the one that came in.
            hdr.h.length = 0xff;
            resubmit_preserving_field_list(1);
            // A resubmission goes before a drop.
            mark_to_drop(sm);
        }
        hdr.h.turns = meta.turns + meta.lost;
        hdr.h.seen = (bit<8>) sm.instance_type;
        hdr.h.length = (bit<8>) sm.packet_length;
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        if (hdr.h.kind == 2 && meta.turns < 2) {
            meta.turns = meta.turns + 1;
            truncate(6);
            recirculate_preserving_field_list(2);
        }
        if (hdr.h.kind == 3) {
            truncate(9);
            truncate(3);
        }
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
