// v1model: multicast groups of nodes with replication ids, and what goes before or after them.
#include "include/v1.p4"

header data_t {
    bit<16> group;
    bit<16> rid;
    bit<8> port;
    bit<8> seen;    // instance_type
    bit<8> meta;
}

struct headers_t {
    data_t d;
}

struct meta_t {
    bit<8> value;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // A group goes before a port, and even before a drop.
        s.egress_spec = 511;
        s.mcast_grp = h.d.group;
        m.value = 1;
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        // Each copy has headers and metadata of its own.
        m.value = m.value + 1;
        h.d.rid = s.egress_rid;
        h.d.port = (bit<8>) s.egress_port;
        h.d.seen = h.d.seen + (bit<8>) s.instance_type;
        h.d.meta = m.value;
        if (s.egress_rid == 9) {
            mark_to_drop(s);
        }
    }
}

control C(inout headers_t h, inout meta_t m) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
