// An IPv6 router in three lookups: the destination's longest prefix gives a next hop and a port, the next hop its MAC
// address, the port the router's own MAC address there. No checksum: the IPv6 header has none. For bench/ipv6.py.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV6 = 0x86dd;

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

// RFC 8200, section 3. Extension headers are payload.
header ipv6_t {
    bit<4>   version;
    bit<8>   trafficClass;
    bit<20>  flowLabel;
    bit<16>  payloadLen;
    bit<8>   nextHdr;
    bit<8>   hopLimit;
    bit<128> srcAddr;
    bit<128> dstAddr;
}

struct headers_t {
    ethernet_t ethernet;
    ipv6_t     ipv6;
}

struct metadata_t {
    bit<16> nhop;  // from ipv6_lpm to neighbors
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }
    // A packet that ends inside the header leaves it invalid, and ingress drops what has no valid IPv6 header.
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action _drop() {
        mark_to_drop(standard_metadata);
    }
    action set_nhop(bit<16> nhop, bit<9> port) {
        meta.nhop = nhop;
        standard_metadata.egress_spec = port;
        hdr.ipv6.hopLimit = hdr.ipv6.hopLimit - 1;
    }
    action set_dmac(bit<48> dmac) {
        hdr.ethernet.dstAddr = dmac;
    }
    table ipv6_lpm {
        key = { hdr.ipv6.dstAddr : lpm; }
        actions = { set_nhop; _drop; }
        default_action = _drop();
        size = 1048576;
    }
    table neighbors {
        key = { meta.nhop : exact; }
        actions = { set_dmac; _drop; }
        default_action = _drop();
        size = 512;
    }
    apply {
        // RFC 8200, section 3: what would leave with hop limit 0 is discarded.
        if (hdr.ipv6.isValid() && hdr.ipv6.hopLimit > 1) {
            // After a miss there is no next hop to look up.
            if (ipv6_lpm.apply().hit) {
                neighbors.apply();
            }
        } else {
            _drop();
        }
    }
}

// Runs only for packets that ingress has not dropped.
control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    action rewrite_mac(bit<48> smac) {
        hdr.ethernet.srcAddr = smac;
    }
    action _drop() {
        mark_to_drop(standard_metadata);
    }
    table send_frame {
        key = { standard_metadata.egress_port : exact; }
        actions = { rewrite_mac; _drop; }
        default_action = _drop();
        size = 256;
    }
    apply {
        send_frame.apply();
    }
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv6);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
