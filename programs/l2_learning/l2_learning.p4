// A switch that learns where stations are. The program floods what it does not know and reports sources to the controller
// that it has not seen, or that have moved; the controller (controller.py) adds entries, and removes them when nothing
// has come from a station for a while. No VLANs, no spanning tree: a loop of such switches floods for ever.
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

// A message to the controller: a station sent from a port.
struct learn_t {
    bit<48> mac;
    bit<9>  port;
}

// A frame of fewer than 14 bytes has no header here (PacketTooShort) and is dropped.
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
    action learn() {
        digest<learn_t>(1, { hdr.ethernet.srcAddr, standard_metadata.ingress_port });
    }
    // Where a station was last seen. Only this table ages: a station that sends nothing is forgotten, however much is
    // sent to it.
    table smac {
        key = {
            hdr.ethernet.srcAddr : exact;
            standard_metadata.ingress_port : exact;
        }
        actions = { learn; NoAction; }
        default_action = learn();
        size = 65536;
        support_timeout = true;
    }

    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    // To all ports of the group; the egress takes it back at the port where it came from.
    action flood() {
        standard_metadata.mcast_grp = 1;
    }
    table dmac {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { forward; flood; }
        default_action = flood();
        size = 65536;
    }

    apply {
        if (!hdr.ethernet.isValid()) {
            mark_to_drop(standard_metadata);
            return;
        }
        // The first bit on the wire is that of groups: nobody sends from such an address.
        if (hdr.ethernet.srcAddr[40:40] == 0) {
            smac.apply();
        }
        dmac.apply();
        if (standard_metadata.mcast_grp == 0 &&
            standard_metadata.egress_spec == standard_metadata.ingress_port) {
            // The station hears it anyway.
            mark_to_drop(standard_metadata);
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        }
    }
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
