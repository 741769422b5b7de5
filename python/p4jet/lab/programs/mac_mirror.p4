// A mirror for a traffic generator: a frame for a known MAC address goes back out of the port it came in by, with the
// two MAC addresses of a pair that the control plane gave. The generator sees its own packets return and can measure
// loss, rate and round-trip time with a single cable.
//
// programs/mac_mirror of the repository is the same program, with tests.
#include <core.p4>
#include <v1model.p4>

header ethernet_h {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

struct headers_t {
    ethernet_h ethernet;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition parse_ethernet;
    }
    // Nothing is checked: a frame cut short has an invalid header, reads as destination 0 and misses in `mirror`.
    state parse_ethernet {
        packet.extract(hdr.ethernet);
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
    // The parameters are named as the frame arrives: dst_addr is the mirror's address, src_addr the generator's.
    // They leave the other way round. The swap is made of these two constants and copies no field of the packet, so
    // the answer goes to the generator of the entry, whoever sent the frame.
    action set_mac(bit<48> dst_addr, bit<48> src_addr) {
        hdr.ethernet.dstAddr = src_addr;
        hdr.ethernet.srcAddr = dst_addr;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
    table mirror {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { set_mac; my_drop; }
        default_action = my_drop();
    }
    apply {
        mirror.apply();
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
