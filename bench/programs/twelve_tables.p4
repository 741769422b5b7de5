// Twelve tables, one after the other, every one hit by every packet: what a lookup costs when many follow each other. Six
// look at headers, six at what those found; ten are exact, one is a longest prefix match, and one has a key so small
// that its entries can stand in an array. bench/twelve_tables.py makes entries and packets.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dstAddr;
    bit<48> srcAddr;
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

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t {
    bit<32> station;   // by source MAC address
    bit<32> bridge;    // by destination MAC address
    bit<32> tenant;    // by source address
    bit<32> service;   // by source port
    bit<32> segment;   // by destination port
    bit<32> route;     // by destination prefix
    bit<32> zone;      // by station
    bit<32> contract;  // by tenant
    bit<32> next_hop;  // by route
    bit<16> link;      // by next hop
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: parse_udp;
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
    action discard() {
        mark_to_drop(standard_metadata);
    }

    action set_station(bit<32> station) { meta.station = station; }
    table stations {
        key = { hdr.ethernet.srcAddr : exact; }
        actions = { set_station; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_bridge(bit<32> bridge) { meta.bridge = bridge; }
    table bridges {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { set_bridge; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_tenant(bit<32> tenant) { meta.tenant = tenant; }
    table tenants {
        key = { hdr.ipv4.srcAddr : exact; }
        actions = { set_tenant; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_service(bit<32> service) { meta.service = service; }
    table services {
        key = { hdr.ipv4.protocol : exact; hdr.udp.srcPort : exact; }
        actions = { set_service; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_segment(bit<32> segment) { meta.segment = segment; }
    table segments {
        key = { hdr.ipv4.protocol : exact; hdr.udp.dstPort : exact; }
        actions = { set_segment; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_route(bit<32> route) { meta.route = route; }
    table routes {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { set_route; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_zone(bit<32> zone) { meta.zone = zone; }
    table zones {
        key = { meta.station : exact; }
        actions = { set_zone; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_contract(bit<32> contract) { meta.contract = contract; }
    table contracts {
        key = { meta.tenant : exact; }
        actions = { set_contract; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_class(bit<8> diffserv) { hdr.ipv4.diffserv = diffserv; }
    table classes {
        key = { meta.service ^ meta.segment ^ meta.zone : exact @name("class"); }
        actions = { set_class; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_next_hop(bit<32> next_hop) { meta.next_hop = next_hop; }
    table next_hops {
        key = { meta.route ^ meta.contract ^ meta.bridge : exact @name("next_hop"); }
        actions = { set_next_hop; discard; }
        default_action = discard();
        size = 1024;
    }

    action set_link(bit<16> link, bit<48> dmac) {
        meta.link = link;
        hdr.ethernet.dstAddr = dmac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table neighbours {
        key = { meta.next_hop : exact; }
        actions = { set_link; discard; }
        default_action = discard();
        size = 1024;
    }

    action send(bit<9> port, bit<48> smac) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.srcAddr = smac;
    }
    table links {
        key = { meta.link : exact; }
        actions = { send; discard; }
        default_action = discard();
        size = 1024;
    }

    apply {
        if (hdr.udp.isValid() && hdr.ipv4.ttl > 1) {
            stations.apply();
            bridges.apply();
            tenants.apply();
            services.apply();
            segments.apply();
            routes.apply();
            zones.apply();
            contracts.apply();
            classes.apply();
            next_hops.apply();
            neighbours.apply();
            links.apply();
        } else {
            discard();
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
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
