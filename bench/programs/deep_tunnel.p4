// The gateway between tenants and a core that carries their frames in VXLAN (RFC 7348), itself behind two VLAN tags:
//
//     core:    Ethernet  S-tag  C-tag  IPv4  UDP  VXLAN   Ethernet  tag  IPv4  TCP
//     tenant:                                             Ethernet  tag  IPv4  TCP
//
// A tunnel that ends here loses six headers, one that begins here gets them, and one that passes is sent on to its next
// end, without its S-tag. So the packet is parsed ten headers deep, the inner ones stand in two places, and headers come
// and go. bench/deep_tunnel.py makes entries and packets.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_S_TAG = 0x88a8;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> PORT_VXLAN = 4789;

const bit<16> IPV4_UDP_VXLAN_BYTES = 20 + 8 + 8;
const bit<16> UDP_VXLAN_BYTES = 8 + 8;

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

header vlan_t {
    bit<3>  priority;
    bit<1>  dropEligible;
    bit<12> vid;
    bit<16> etherType;
}

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

header udp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> length;
    bit<16> checksum;
}

header vxlan_t {
    bit<8>  flags;
    bit<24> reserved;
    bit<24> vni;
    bit<8>  reserved2;
}

header tcp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4>  dataOffset;
    bit<12> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t     s_tag;
    vlan_t     c_tag;
    ipv4_t     ipv4;
    udp_t      udp;
    vxlan_t    vxlan;
    ethernet_t inner_ethernet;
    vlan_t     inner_tag;
    ipv4_t     inner_ipv4;
    tcp_t      inner_tcp;
}

struct metadata_t {}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition select(packet.lookahead<ethernet_t>().etherType) {
            TYPE_S_TAG: parse_ethernet;
            default: parse_inner_ethernet;
        }
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.s_tag);
        transition select(hdr.s_tag.etherType) {
            TYPE_VLAN: parse_c_tag;
            default: accept;
        }
    }
    state parse_c_tag {
        packet.extract(hdr.c_tag);
        transition select(hdr.c_tag.etherType) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.ihl, hdr.ipv4.protocol) {
            (5, PROTOCOL_UDP): parse_udp;
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
            TYPE_VLAN: parse_inner_tag;
            default: accept;
        }
    }
    state parse_inner_tag {
        packet.extract(hdr.inner_tag);
        transition select(hdr.inner_tag.etherType) {
            TYPE_IPV4: parse_inner_ipv4;
            default: accept;
        }
    }
    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.ihl, hdr.inner_ipv4.protocol) {
            (5, PROTOCOL_TCP): parse_inner_tcp;
            default: accept;
        }
    }
    state parse_inner_tcp {
        packet.extract(hdr.inner_tcp);
        transition accept;
    }
}

control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.srcAddr,
              hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum,
            HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    action discard() {
        mark_to_drop(standard_metadata);
    }

    // The tunnel ends: its headers go.
    action end(bit<9> port, bit<12> vid) {
        hdr.ethernet.setInvalid();
        hdr.s_tag.setInvalid();
        hdr.c_tag.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.udp.setInvalid();
        hdr.vxlan.setInvalid();
        hdr.inner_tag.vid = vid;
        standard_metadata.egress_spec = port;
    }

    // The tunnel continues to its next end, on a link without S-tags.
    action pass(bit<9> port, bit<48> smac, bit<48> dmac, bit<32> source, bit<32> destination, bit<24> vni) {
        hdr.ethernet.srcAddr = smac;
        hdr.ethernet.dstAddr = dmac;
        hdr.ethernet.etherType = TYPE_VLAN;
        hdr.s_tag.setInvalid();
        hdr.ipv4.srcAddr = source;
        hdr.ipv4.dstAddr = destination;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        hdr.vxlan.vni = vni;
        standard_metadata.egress_spec = port;
    }

    table tunnels {
        key = {
            hdr.ipv4.dstAddr : exact;
            hdr.vxlan.vni    : exact;
        }
        actions = { end; pass; discard; }
        default_action = discard();
        size = 1024;
    }

    action begin(bit<9> port, bit<48> smac, bit<48> dmac, bit<12> s_vid, bit<12> c_vid, bit<32> source,
                 bit<32> destination, bit<24> vni) {
        hdr.ethernet.setValid();
        hdr.ethernet.dstAddr = dmac;
        hdr.ethernet.srcAddr = smac;
        hdr.ethernet.etherType = TYPE_S_TAG;
        hdr.s_tag.setValid();
        hdr.s_tag.vid = s_vid;
        hdr.s_tag.etherType = TYPE_VLAN;
        hdr.c_tag.setValid();
        hdr.c_tag.vid = c_vid;
        hdr.c_tag.etherType = TYPE_IPV4;
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.totalLen = (bit<16>) standard_metadata.packet_length + IPV4_UDP_VXLAN_BYTES;
        hdr.ipv4.flags = 2;  // not to be fragmented (RFC 7348, section 4.3)
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = PROTOCOL_UDP;
        hdr.ipv4.srcAddr = source;
        hdr.ipv4.dstAddr = destination;
        hdr.udp.setValid();
        // Spreads flows over the paths of the core, from the dynamic ports (RFC 7348, section 5).
        hdr.udp.srcPort = 0xc000 | ((hdr.inner_tcp.srcPort ^ hdr.inner_tcp.dstPort) & 0x3fff);
        hdr.udp.dstPort = PORT_VXLAN;
        hdr.udp.length = (bit<16>) standard_metadata.packet_length + UDP_VXLAN_BYTES;
        hdr.vxlan.setValid();
        hdr.vxlan.flags = 0x08;
        hdr.vxlan.vni = vni;
        standard_metadata.egress_spec = port;
    }

    table stations {
        key = {
            hdr.inner_tag.vid          : exact;
            hdr.inner_ethernet.dstAddr : exact;
        }
        actions = { begin; discard; }
        default_action = discard();
        size = 1024;
    }

    apply {
        if (!hdr.inner_tcp.isValid()) {
            discard();
        } else if (hdr.vxlan.isValid()) {
            if (standard_metadata.checksum_error == 0 && hdr.ipv4.ttl > 1) {
                tunnels.apply();
            } else {
                discard();
            }
        } else {
            stations.apply();
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    apply {}
}

control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.srcAddr,
              hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum,
            HashAlgorithm.csum16);
    }
}

control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.s_tag);
        packet.emit(hdr.c_tag);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_tag);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_tcp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
