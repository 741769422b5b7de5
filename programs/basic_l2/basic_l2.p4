// A switch whose stations are all known: a frame leaves by the port that the control plane gave for its destination
// MAC address, unmodified, or not at all. No learning, no flooding, no VLANs: one exact lookup, nothing else, so that
// a measurement of this program is a measurement of that lookup.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {}

// A frame of fewer than 14 bytes raises PacketTooShort here. v1model runs ingress nevertheless, with an invalid
// header whose fields read as 0; nobody owns the MAC address 0, so such a runt misses in `forward` and dies there.
parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action set_dest(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action _drop() {
        mark_to_drop(standard_metadata);
    }
    // The default has to drop: v1model starts with egress_spec 0, and a table that did nothing on a miss would send
    // unknown stations' frames to port 0.
    table forward {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { set_dest; _drop; }
        default_action = _drop();
        size = 1048576;
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
    apply {
        packet.emit(hdr.ethernet);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
