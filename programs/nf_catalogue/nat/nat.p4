// NAT of the catalogue: translates address and UDP port of the inside, both ways (RFC 3022, static entries), in one table.
//
//     x = [2 2 0 0 0 0]: three parsed headers (Ethernet, IPv4, UDP), two of them modified (IPv4, UDP), one table.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;

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

struct metadata_t {}

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

    // RFC 1624, equation 3: HC' = ~(~HC + ~m + m'). 0 means that the sender computed none; a sum of 0 is sent as 0xffff.
    action correct_checksum(bit<32> old_addr, bit<32> new_addr, bit<16> old_port, bit<16> new_port) {
        bit<32> sum = (bit<32>) (~hdr.udp.checksum)
            + (bit<32>) (~old_addr[31:16]) + (bit<32>) (~old_addr[15:0]) + (bit<32>) (~old_port)
            + (bit<32>) new_addr[31:16] + (bit<32>) new_addr[15:0] + (bit<32>) new_port;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        bit<16> corrected = ~sum[15:0];
        hdr.udp.checksum = hdr.udp.checksum == 0 ? 0 : (corrected == 0 ? 16w0xffff : corrected);
    }

    action translate_source(bit<32> addr, bit<16> udp_port, bit<9> port) {
        correct_checksum(hdr.ipv4.srcAddr, addr, hdr.udp.srcPort, udp_port);
        hdr.ipv4.srcAddr = addr;
        hdr.udp.srcPort = udp_port;
        standard_metadata.egress_spec = port;
    }

    action translate_destination(bit<32> addr, bit<16> udp_port, bit<9> port) {
        correct_checksum(hdr.ipv4.dstAddr, addr, hdr.udp.dstPort, udp_port);
        hdr.ipv4.dstAddr = addr;
        hdr.udp.dstPort = udp_port;
        standard_metadata.egress_spec = port;
    }

    // Outbound entries name the source, inbound entries the destination; the rest is masked out.
    table translations {
        key = {
            hdr.ipv4.srcAddr : ternary;
            hdr.udp.srcPort : ternary;
            hdr.ipv4.dstAddr : ternary;
            hdr.udp.dstPort : ternary;
        }
        actions = { translate_source; translate_destination; drop; }
        default_action = drop();
        size = 16384;
    }

    apply {
        if (hdr.udp.isValid()) {
            translations.apply();
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
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
