// LB of the catalogue: spreads flows over servers that share an address (direct server return), by a hash of the five-tuple.
// It changes no packet.
//
// The catalogue names SipHash-2-4, a keyed hash. v1model has none; CRC-32 stands for it here. It works on the same bytes, but
// whoever knows the table can choose flows that meet in one bucket.
//
//     x = [2 0 0 0 0 0]: three parsed headers (Ethernet, IPv4, UDP), one table; and a hash of 13 bytes.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> BUCKETS = 256;

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

// RFC 791, section 3.1, without options.
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragOffset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
}

// RFC 768.
header udp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> length;
    bit<16> checksum;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
}

struct metadata_t {
    bit<16> bucket;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        // After options, or in a later fragment, other bytes follow.
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action drop() {
        mark_to_drop(standard_metadata);
    }

    action to_server(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    // Buckets of flows: moving one moves its flows, and no others.
    table servers {
        key = { meta.bucket : exact; }
        actions = { to_server; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            // The ports of what is not UDP, and of later fragments, are left out.
            hash(meta.bucket, HashAlgorithm.crc32, 16w0,
                 { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.ipv4.protocol, hdr.udp.srcPort, hdr.udp.dstPort },
                 BUCKETS);
            servers.apply();
        } else {
            drop();
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
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
