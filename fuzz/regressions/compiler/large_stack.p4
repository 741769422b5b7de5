// A stack of 500 headers that all live from parser to deparser: register allocation took seconds.
#include <core.p4>
#include <v1model.p4>

header label_t {
    bit<20> label;
    bit<3>  class;
    bit<1>  bottom;
    bit<8>  ttl;
}

struct headers_t {
    label_t[500] labels;
}

struct meta_t {
    bit<20> last;
}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.labels.next);
        meta.last = hdr.labels.last.label;
        transition select(hdr.labels.last.bottom) {
            0: start;
            _: accept;
        }
    }
}

control V(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = (bit<9>)meta.last;
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {}
}

control U(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.labels);
    }
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
