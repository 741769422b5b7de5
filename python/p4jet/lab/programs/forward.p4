// Frames that come by one port leave by another, whatever they contain.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action my_drop() {
        mark_to_drop(standard_metadata);
    }
    action send(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    table forward {
        key = { standard_metadata.ingress_port : exact; }
        actions = { send; my_drop; }
        default_action = my_drop();
    }
    apply {
        forward.apply();
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {}
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
