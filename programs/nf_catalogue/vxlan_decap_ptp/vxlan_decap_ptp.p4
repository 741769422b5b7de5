// VXLAN decapsulation in the form of the validation: before the tunnel's headers stand those of a PTP message, which the tester
// needs for its timestamps and which stay.
//
//     Ethernet IPv4 UDP PTP | Ethernet IPv4 UDP VXLAN Ethernet IPv4 UDP
//
//     x = [10 0 3 4 0 1]: eleven parsed headers, three copied, four removed, two tables.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> PORT_PTP = 319;  // IEEE 1588, event messages
const bit<16> PORT_VXLAN = 4789;

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

// IEEE 1588, the common header of messages.
header ptp_t {
    bit<4>  transport;
    bit<4>  messageType;
    bit<4>  minor;
    bit<4>  version;
    bit<16> messageLength;
    bit<8>  domain;
    bit<8>  reserved;
    bit<16> flags;
    bit<64> correction;
    bit<32> reserved2;
    bit<80> sourcePort;
    bit<16> sequence;
    bit<8>  control_;
    bit<8>  interval;
}

// RFC 7348, section 5.
header vxlan_t {
    bit<8>  flags;
    bit<24> reserved;
    bit<24> vni;
    bit<8>  reserved2;
}

struct headers_t {
    ethernet_t ptp_ethernet;
    ipv4_t ptp_ipv4;
    udp_t ptp_udp;
    ptp_t ptp;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    vxlan_t vxlan;
    ethernet_t inner_ethernet;
    ipv4_t inner_ipv4;
    udp_t inner_udp;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ptp_ethernet);
        transition select(hdr.ptp_ethernet.etherType) {
            TYPE_IPV4: parse_ptp_ipv4;
            default: accept;
        }
    }

    state parse_ptp_ipv4 {
        packet.extract(hdr.ptp_ipv4);
        // After options, or in a later fragment, other bytes follow.
        transition select(hdr.ptp_ipv4.ihl, hdr.ptp_ipv4.fragOffset, hdr.ptp_ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_ptp_udp;
            default: accept;
        }
    }

    state parse_ptp_udp {
        packet.extract(hdr.ptp_udp);
        transition select(hdr.ptp_udp.dstPort) {
            PORT_PTP: parse_ptp;
            default: accept;
        }
    }

    state parse_ptp {
        packet.extract(hdr.ptp);
        transition parse_ethernet;
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dstPort) {
            PORT_VXLAN: parse_vxlan;
            default: accept;
        }
    }

    state parse_vxlan {
        packet.extract(hdr.vxlan);
        transition parse_inner_ethernet;
    }

    state parse_inner_ethernet {
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.etherType) {
            TYPE_IPV4: parse_inner_ipv4;
            default: accept;
        }
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.ihl, hdr.inner_ipv4.fragOffset, hdr.inner_ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): parse_inner_udp;
            default: accept;
        }
    }

    state parse_inner_udp {
        packet.extract(hdr.inner_udp);
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

    action accept_tunnels() {}

    // The ports on which packets in tunnels may arrive.
    table uplinks {
        key = { standard_metadata.ingress_port : exact; }
        actions = { accept_tunnels; drop; }
        default_action = drop();
        size = 512;
    }

    // An inner header that is not there takes the outer one away, too: a copy of an invalid header is invalid.
    action decapsulate(bit<9> port) {
        hdr.ethernet = hdr.inner_ethernet;
        hdr.ipv4 = hdr.inner_ipv4;
        hdr.udp = hdr.inner_udp;
        hdr.vxlan.setInvalid();
        hdr.inner_ethernet.setInvalid();
        hdr.inner_ipv4.setInvalid();
        hdr.inner_udp.setInvalid();
        standard_metadata.egress_spec = port;
    }

    table networks {
        key = { hdr.vxlan.vni : exact; }
        actions = { decapsulate; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (hdr.vxlan.isValid()) {
            switch (uplinks.apply().action_run) {
                accept_tunnels: { networks.apply(); }
            }
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
        packet.emit(hdr.ptp_ethernet);
        packet.emit(hdr.ptp_ipv4);
        packet.emit(hdr.ptp_udp);
        packet.emit(hdr.ptp);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_udp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
