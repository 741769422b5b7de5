// Header stacks: next, last, lastIndex, run-time indices, push and pop.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<7> v;
    bit<1> bos;
}

struct headers_t {
    h_t[2] s;
}

struct metadata_t {
    bit<32> last;
    bit<1> i;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.s.next);
        meta.last = hdr.s.lastIndex;
        transition select(hdr.s.last.bos) {
            0: start;
            1: accept;
        }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.s[meta.i].v = hdr.s[1 - meta.i].v + 1;
        hdr.s.push_front(1);
        hdr.s.pop_front(1);
        hdr.s[meta.i].setInvalid();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
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
