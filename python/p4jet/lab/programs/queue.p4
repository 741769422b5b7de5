// A switch with a controller at port 2: packets of new flows go there and come back by the same port; all leave by port 1.
#include <core.p4>
#include <v1model.p4>

const bit<9> PORT_OUT = 1;
const bit<9> PORT_CONTROLLER = 2;

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

// 1: the packet belongs to a new flow.
header flow_t {
    bit<8> is_new;
}

struct headers_t {
    ethernet_t ethernet;
    flow_t     flow;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.flow);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.ingress_port != PORT_CONTROLLER && hdr.flow.is_new == 1) {
            standard_metadata.egress_spec = PORT_CONTROLLER;
        } else {
            standard_metadata.egress_spec = PORT_OUT;
        }
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
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.flow);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
